CREATE TABLE t_order (
    id         BIGSERIAL PRIMARY KEY,
    order_id   VARCHAR(64) NOT NULL UNIQUE,
    user_id    BIGINT NOT NULL,
    amount     NUMERIC(18, 2) NOT NULL,
    status     VARCHAR(32) NOT NULL,
    created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
);

CREATE TABLE t_outbox_event (
    id              BIGSERIAL PRIMARY KEY,
    event_id        VARCHAR(64) NOT NULL UNIQUE,
    aggregate_type  VARCHAR(64) NOT NULL,
    aggregate_id    VARCHAR(64) NOT NULL,
    event_type      VARCHAR(64) NOT NULL,
    payload         JSONB NOT NULL,
    headers         JSONB,
    status          VARCHAR(16) NOT NULL,
    retry_count     INT NOT NULL DEFAULT 0,
    next_retry_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    last_error      TEXT,
    created_at      TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at      TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE INDEX idx_outbox_status_retry ON t_outbox_event (status, next_retry_time, id);

CREATE TABLE t_message_consume_log (
    id             BIGSERIAL PRIMARY KEY,
    consumer_group VARCHAR(128) NOT NULL,
    message_id     VARCHAR(64) NOT NULL,
    biz_key        VARCHAR(64),
    status         VARCHAR(16) NOT NULL,
    consumed_at    TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    UNIQUE (consumer_group, message_id)
);

-- What the consumer does with an order.
CREATE TABLE t_reservation (
    order_id VARCHAR(64) PRIMARY KEY,
    amount   NUMERIC(18, 2) NOT NULL
);

-- What the relay has published, in its order.
CREATE TABLE t_sent_by_spring (
    id          BIGSERIAL PRIMARY KEY,
    event_id    VARCHAR(64) NOT NULL,
    message_key VARCHAR(64) NOT NULL,
    value       TEXT NOT NULL
);
