-- The scratch database: the facts of all services and of the broker side by side, where one query can compare them.
-- Times are microseconds. payload_hash is the SHA-256 of the payload, made while copying.
-- pay is now or later, as the customer wants it in the end.
CREATE TABLE orders (order_id TEXT PRIMARY KEY, request_key TEXT NOT NULL, customer_id TEXT NOT NULL, status TEXT NOT NULL, amount_cents INTEGER NOT NULL, pay TEXT NOT NULL, version INTEGER NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL);
CREATE TABLE order_items (order_id TEXT NOT NULL, sku TEXT NOT NULL, qty INTEGER NOT NULL, PRIMARY KEY (order_id, sku));
CREATE TABLE stock (sku TEXT PRIMARY KEY, initial_qty INTEGER NOT NULL, available INTEGER NOT NULL, reserved INTEGER NOT NULL, sold INTEGER NOT NULL);
CREATE TABLE stock_ledger (ledger_id TEXT PRIMARY KEY, sku TEXT NOT NULL, kind TEXT NOT NULL, d_available INTEGER NOT NULL, d_reserved INTEGER NOT NULL, d_sold INTEGER NOT NULL, reservation_id TEXT, cause_event_id TEXT NOT NULL, created_at INTEGER NOT NULL);
CREATE TABLE reservations (reservation_id TEXT PRIMARY KEY, order_id TEXT NOT NULL, sku TEXT NOT NULL, qty INTEGER NOT NULL, state TEXT NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL);
CREATE TABLE payments (order_id TEXT PRIMARY KEY, state TEXT NOT NULL, amount_cents INTEGER NOT NULL, updated_at INTEGER NOT NULL);
CREATE TABLE assessments (order_id TEXT PRIMARY KEY, state TEXT NOT NULL, updated_at INTEGER NOT NULL);
CREATE TABLE shipments (order_id TEXT PRIMARY KEY, state TEXT NOT NULL, tracking TEXT NOT NULL, updated_at INTEGER NOT NULL);
-- coupon is its code, or '' for an order that earned none.
CREATE TABLE rewards (order_id TEXT PRIMARY KEY, state TEXT NOT NULL, points INTEGER NOT NULL, coupon TEXT NOT NULL, updated_at INTEGER NOT NULL);
-- points are negative when they are taken back.
CREATE TABLE points_ledger (cause_event_id TEXT NOT NULL, kind TEXT NOT NULL, customer_id TEXT NOT NULL, order_id TEXT NOT NULL, points INTEGER NOT NULL);
-- What the outside systems did, by their own books. Kinds: capture, decline, void (nothing may be captured any more), refund; coupon, revocation (no coupon any more); shipment, cancellation (no shipment any more).
CREATE TABLE outside_ledger (system TEXT NOT NULL, idempotency_key TEXT NOT NULL, kind TEXT NOT NULL, order_id TEXT NOT NULL, customer_id TEXT NOT NULL, amount_cents INTEGER NOT NULL, created_at INTEGER NOT NULL);
-- not_before is NULL but for timers; partition and offset are NULL where the broker tells publishers no place.
CREATE TABLE outbox (event_id TEXT PRIMARY KEY, causation_id TEXT, service TEXT NOT NULL, event_type TEXT NOT NULL, aggregate_type TEXT NOT NULL, aggregate_id TEXT NOT NULL, aggregate_seq INTEGER NOT NULL, payload_hash TEXT NOT NULL, status TEXT NOT NULL, created_at INTEGER NOT NULL, not_before INTEGER, sent_at INTEGER, topic TEXT NOT NULL, broker_partition INTEGER, broker_offset INTEGER);
-- processed_no counts what a consumer group did in the order of its commits. payload_hash has 16 digits here: it is what the consumer noted of what it got.
CREATE TABLE inbox (consumer TEXT NOT NULL, event_id TEXT NOT NULL, status TEXT NOT NULL, aggregate_id TEXT NOT NULL, attempts INTEGER NOT NULL, payload_hash TEXT, processed_no INTEGER NOT NULL, processed_at INTEGER NOT NULL, PRIMARY KEY (consumer, event_id));
CREATE TABLE retry_message (consumer TEXT NOT NULL, event_id TEXT NOT NULL, attempts INTEGER NOT NULL, next_at INTEGER NOT NULL, PRIMARY KEY (consumer, event_id));
CREATE TABLE dead_letter (id INTEGER NOT NULL, service TEXT NOT NULL, consumer TEXT NOT NULL, event_id TEXT NOT NULL, event_type TEXT NOT NULL, aggregate_id TEXT NOT NULL, class TEXT NOT NULL, reason TEXT NOT NULL, attempts INTEGER NOT NULL, state TEXT NOT NULL, opened_at INTEGER NOT NULL, due_at INTEGER NOT NULL, closed_at INTEGER, closed_by TEXT, PRIMARY KEY (service, id));
CREATE TABLE subscription (consumer TEXT NOT NULL, event_type TEXT NOT NULL, PRIMARY KEY (consumer, event_type));
-- row_sum is the hash that the row ought to have, computed here from its fields.
CREATE TABLE audit_log (service TEXT NOT NULL, seq INTEGER NOT NULL, at_us INTEGER NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL, target TEXT NOT NULL, reason TEXT NOT NULL, prev_hash TEXT NOT NULL, row_hash TEXT NOT NULL, row_sum TEXT NOT NULL, PRIMARY KEY (service, seq));
-- Every record of the broker's log, read back from its beginning. event_id is '' for a record that is no envelope.
CREATE TABLE broker_log (topic TEXT NOT NULL, broker_partition INTEGER NOT NULL, broker_offset INTEGER NOT NULL, event_id TEXT NOT NULL, aggregate_type TEXT NOT NULL, aggregate_id TEXT NOT NULL, aggregate_seq INTEGER NOT NULL, payload_hash TEXT NOT NULL, PRIMARY KEY (topic, broker_partition, broker_offset));
-- What the drill itself wrote to the broker behind everybody's back, as acknowledged: kind is duplicate or foreign.
CREATE TABLE planted (topic TEXT NOT NULL, broker_partition INTEGER NOT NULL, broker_offset INTEGER NOT NULL, kind TEXT NOT NULL, PRIMARY KEY (topic, broker_partition, broker_offset));
-- What clients asked for, one row for each key they made up, and every answer they got. refused: the entry must not take it.
CREATE TABLE client_request (request_key TEXT PRIMARY KEY, customer_id TEXT NOT NULL, amount_cents INTEGER NOT NULL, refused INTEGER NOT NULL);
CREATE TABLE client_item (request_key TEXT NOT NULL, sku TEXT NOT NULL, qty INTEGER NOT NULL, PRIMARY KEY (request_key, sku));
CREATE TABLE client_answer (request_key TEXT NOT NULL, order_id TEXT NOT NULL);
-- What customers did about their orders (pay, cancel), and whether they were told that it is done.
CREATE TABLE client_act (request_key TEXT NOT NULL, kind TEXT NOT NULL, accepted INTEGER NOT NULL);
CREATE INDEX orders_key ON orders (request_key);
CREATE INDEX outbox_aggregate ON outbox (aggregate_type, aggregate_id, aggregate_seq);
CREATE INDEX reservations_order ON reservations (order_id, sku);
CREATE INDEX ledger_reservation ON stock_ledger (reservation_id);
CREATE INDEX ledger_cause ON stock_ledger (cause_event_id);
CREATE INDEX log_event ON broker_log (event_id);
CREATE INDEX answer_key ON client_answer (request_key);
CREATE INDEX audit_target ON audit_log (target);
CREATE INDEX act_key ON client_act (request_key);
CREATE INDEX outside_order ON outside_ledger (order_id, kind);
CREATE INDEX points_order ON points_ledger (order_id);
CREATE INDEX letter_key ON dead_letter (aggregate_id);
