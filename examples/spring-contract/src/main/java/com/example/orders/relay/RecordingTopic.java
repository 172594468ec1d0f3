package com.example.orders.relay;

import com.example.orders.outbox.OutboxEvent;
import org.springframework.context.annotation.Profile;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Component;
import org.springframework.transaction.annotation.Propagation;
import org.springframework.transaction.annotation.Transactional;

/** A table that records what was published, in its order, in the place of a broker. */
@Component
@Profile("relay")
class RecordingTopic implements Topic {

    private final JdbcTemplate jdbc;

    RecordingTopic(JdbcTemplate jdbc) {
        this.jdbc = jdbc;
    }

    /** Gives up after a while, as a client of a broker that does not answer. */
    @Override
    @Transactional(propagation = Propagation.REQUIRES_NEW, timeoutString = "${relay.send-timeout}")
    public void publish(OutboxEvent event) {
        jdbc.update("INSERT INTO t_sent_by_spring (event_id, message_key, value) VALUES (?, ?, ?)",
                event.eventId(), event.aggregateId(), event.payload());
    }
}
