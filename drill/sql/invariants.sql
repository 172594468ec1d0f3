-- Each query returns the rows that violate the invariant; "checked" counts the rows it examined.
-- An invariant marked "optional" may have nothing to examine and is then left out of the report; any other one is violated by that.

-- name: I01 no fact without an event: every order has its first event
-- checked: SELECT COUNT(*) FROM orders
SELECT o.order_id FROM orders o LEFT JOIN outbox e ON e.aggregate_type='order' AND e.aggregate_id=o.order_id AND e.aggregate_seq=1 WHERE e.event_id IS NULL;

-- name: I02 no event without a fact: every order event belongs to an order
-- checked: SELECT COUNT(*) FROM outbox WHERE aggregate_type='order'
SELECT e.event_id FROM outbox e LEFT JOIN orders o ON o.order_id=e.aggregate_id WHERE e.aggregate_type='order' AND o.order_id IS NULL;

-- name: I03 each state change of an order emitted exactly one event
-- checked: SELECT COUNT(*) FROM orders
SELECT o.order_id, o.version, COUNT(e.event_id) FROM orders o LEFT JOIN outbox e ON e.aggregate_type='order' AND e.aggregate_id=o.order_id GROUP BY o.order_id, o.version HAVING COUNT(e.event_id)<>o.version;

-- name: I04 the events of an aggregate are numbered 1, 2, 3 … without gap or repeat
-- checked: SELECT COUNT(*) FROM outbox
SELECT aggregate_type, aggregate_id FROM outbox GROUP BY aggregate_type, aggregate_id HAVING MIN(aggregate_seq)<>1 OR MAX(aggregate_seq)<>COUNT(*) OR COUNT(*)<>COUNT(DISTINCT aggregate_seq);

-- name: I05 stock is never negative
-- checked: SELECT COUNT(*) FROM stock
SELECT sku FROM stock WHERE available<0 OR reserved<0 OR sold<0;

-- name: I06 stock is conserved: initial = available + reserved + sold
-- checked: SELECT COUNT(*) FROM stock
SELECT sku, initial_qty, available+reserved+sold FROM stock WHERE initial_qty<>available+reserved+sold;

-- name: I07 stock equals the replay of its ledger
-- checked: SELECT COUNT(*) FROM stock_ledger
SELECT s.sku FROM stock s LEFT JOIN (SELECT sku, SUM(d_available) AS a, SUM(d_reserved) AS r, SUM(d_sold) AS d FROM stock_ledger GROUP BY sku) l ON l.sku=s.sku WHERE s.available<>s.initial_qty+COALESCE(l.a,0) OR s.reserved<>COALESCE(l.r,0) OR s.sold<>COALESCE(l.d,0);

-- name: I08 reserved and sold equal the reservations that hold them
-- checked: SELECT COUNT(*) FROM reservations
SELECT s.sku FROM stock s LEFT JOIN (SELECT sku, SUM(CASE WHEN state='RESERVED' THEN qty ELSE 0 END) AS r, SUM(CASE WHEN state='CONFIRMED' THEN qty ELSE 0 END) AS c FROM reservations GROUP BY sku) x ON x.sku=s.sku WHERE s.reserved<>COALESCE(x.r,0) OR s.sold<>COALESCE(x.c,0);

-- name: I09 at most one effective reservation for an order line
-- checked: SELECT COUNT(*) FROM reservations
SELECT order_id, sku, COUNT(*) FROM reservations WHERE state IN ('RESERVED','CONFIRMED') GROUP BY order_id, sku HAVING COUNT(*)>1;

-- name: I10 every line of a completed order has one reservation of the right quantity
-- checked: SELECT COUNT(*) FROM order_items i JOIN orders o ON o.order_id=i.order_id WHERE o.status='RESERVED'
-- optional
SELECT i.order_id, i.sku FROM order_items i JOIN orders o ON o.order_id=i.order_id LEFT JOIN reservations r ON r.order_id=i.order_id AND r.sku=i.sku AND r.state IN ('RESERVED','CONFIRMED') WHERE o.status='RESERVED' GROUP BY i.order_id, i.sku, i.qty HAVING COUNT(r.reservation_id)<>1 OR SUM(COALESCE(r.qty,0))<>i.qty;

-- name: I11 a cancelled order holds no stock
-- checked: SELECT COUNT(*) FROM orders WHERE status='CANCELLED'
-- optional
SELECT r.reservation_id FROM reservations r JOIN orders o ON o.order_id=r.order_id WHERE o.status='CANCELLED' AND r.state IN ('RESERVED','CONFIRMED');

-- name: I12 no reservation without an order
-- checked: SELECT COUNT(*) FROM reservations
SELECT r.reservation_id FROM reservations r LEFT JOIN orders o ON o.order_id=r.order_id WHERE o.order_id IS NULL;

-- name: I15 every failure is visible: each event is done at each of its consumers, waits for a retry, or is a dead letter
-- checked: SELECT COUNT(*) FROM outbox e JOIN subscription s ON s.event_type=e.event_type
SELECT e.event_id, s.consumer FROM outbox e JOIN subscription s ON s.event_type=e.event_type LEFT JOIN inbox i ON i.consumer=s.consumer AND i.event_id=e.event_id AND i.status NOT IN ('PARKED','DEAD','PROCESSING','FAILED') LEFT JOIN retry_message r ON r.consumer=s.consumer AND r.event_id=e.event_id LEFT JOIN dead_letter d ON d.consumer=s.consumer AND d.event_id=e.event_id WHERE e.status='SENT' AND i.event_id IS NULL AND r.event_id IS NULL AND d.event_id IS NULL;

-- name: I16 no double book-keeping: what is done waits nowhere and is no open dead letter
-- checked: SELECT COUNT(*) FROM inbox WHERE status IN ('APPLIED','SUCCESS','REJECTED')
SELECT i.consumer, i.event_id FROM inbox i LEFT JOIN retry_message r ON r.consumer=i.consumer AND r.event_id=i.event_id LEFT JOIN dead_letter d ON d.consumer=i.consumer AND d.event_id=i.event_id AND d.state IN ('OPEN','REPLAYING') WHERE i.status IN ('APPLIED','SUCCESS','REJECTED') AND (r.event_id IS NOT NULL OR d.event_id IS NOT NULL);

-- name: I17 nothing was processed that was never emitted, nor with another payload
-- checked: SELECT COUNT(*) FROM inbox WHERE status IN ('APPLIED','SUCCESS','REJECTED')
SELECT i.consumer, i.event_id FROM inbox i LEFT JOIN outbox e ON e.event_id=i.event_id WHERE i.status IN ('APPLIED','SUCCESS','REJECTED') AND (e.event_id IS NULL OR SUBSTR(e.payload_hash,1,16)<>i.payload_hash);

-- name: I18 order per key: each consumer took an aggregate's events in sequence
-- checked: SELECT COUNT(*) FROM inbox i JOIN outbox e ON e.event_id=i.event_id WHERE i.status IN ('APPLIED','SUCCESS','REJECTED')
SELECT consumer, event_id FROM (SELECT i.consumer, i.event_id, e.aggregate_seq AS seq, LAG(e.aggregate_seq) OVER (PARTITION BY i.consumer, e.aggregate_type, e.aggregate_id ORDER BY i.processed_no) AS before FROM inbox i JOIN outbox e ON e.event_id=i.event_id WHERE i.status IN ('APPLIED','SUCCESS','REJECTED')) WHERE before IS NOT NULL AND seq<before;

-- name: I20 the outboxes are drained: every event was published or passed by a person
-- checked: SELECT COUNT(*) FROM outbox
SELECT event_id, status FROM outbox WHERE status NOT IN ('SENT','SKIPPED','DISCARDED');

-- name: I21 one effect for one cause: no ledger line twice for an event, article and kind
-- checked: SELECT COUNT(*) FROM stock_ledger
SELECT cause_event_id, sku, kind, COUNT(*) FROM stock_ledger GROUP BY cause_event_id, sku, kind HAVING COUNT(*)>1;

-- name: I22 closed dead letters say who and when, open ones have a due time
-- checked: SELECT COUNT(*) FROM dead_letter
-- optional
SELECT service, id, state FROM dead_letter WHERE (state IN ('REPLAYED','DISCARDED') AND (closed_at IS NULL OR COALESCE(closed_by,'')='')) OR due_at<=opened_at;

-- name: I23 whoever closed a dead letter is in the audit log
-- checked: SELECT COUNT(*) FROM dead_letter WHERE state IN ('REPLAYING','REPLAYED','DISCARDED')
-- optional
SELECT d.service, d.id FROM dead_letter d LEFT JOIN audit_log a ON a.service=d.service AND a.target=COALESCE(NULLIF(d.consumer,''),'relay')||':'||d.event_id AND a.action=CASE d.state WHEN 'DISCARDED' THEN 'dlq.discard' ELSE 'dlq.replay' END WHERE d.state IN ('REPLAYING','REPLAYED','DISCARDED') AND a.seq IS NULL;

-- name: I24 the audit chain has no gap, its links match, and each hash is that of its row
-- checked: SELECT COUNT(*) FROM audit_log
-- optional
SELECT service, seq FROM (SELECT service, seq, prev_hash, row_hash, row_sum, LAG(row_hash) OVER (PARTITION BY service ORDER BY seq) AS ph, LAG(seq) OVER (PARTITION BY service ORDER BY seq) AS ps FROM audit_log) WHERE row_hash<>row_sum OR (ps IS NULL AND (seq<>1 OR prev_hash<>'')) OR (ps IS NOT NULL AND (seq<>ps+1 OR prev_hash<>ph));

-- name: H1 an order that a client was told of is never lost, and is what it asked for
-- checked: SELECT COUNT(*) FROM client_answer
SELECT a.request_key, a.order_id, 'the order' AS missing FROM client_answer a LEFT JOIN orders o ON o.order_id=a.order_id AND o.request_key=a.request_key WHERE o.order_id IS NULL
UNION ALL SELECT a.request_key, a.order_id, c.sku FROM (SELECT DISTINCT request_key, order_id FROM client_answer) a JOIN client_item c ON c.request_key=a.request_key LEFT JOIN order_items i ON i.order_id=a.order_id AND i.sku=c.sku AND i.qty=c.qty WHERE i.sku IS NULL;

-- name: H2 no order appeared that nobody asked for, nor a line of one
-- checked: SELECT COUNT(*) FROM orders
SELECT o.order_id, '' AS sku FROM orders o LEFT JOIN client_request q ON q.request_key=o.request_key WHERE q.request_key IS NULL
UNION ALL SELECT i.order_id, i.sku FROM order_items i JOIN orders o ON o.order_id=i.order_id LEFT JOIN client_item c ON c.request_key=o.request_key AND c.sku=i.sku WHERE c.sku IS NULL;

-- name: H3 one request, one order, however often the client had to ask
-- checked: SELECT COUNT(*) FROM client_request
SELECT request_key FROM orders GROUP BY request_key HAVING COUNT(*)>1 UNION SELECT request_key FROM client_answer GROUP BY request_key HAVING COUNT(DISTINCT order_id)>1;

-- name: H4 effects happened once: every effect has its entry in the consume log, every applied event its effect
-- checked: SELECT COUNT(*) FROM inbox WHERE consumer='inventory' AND status IN ('APPLIED','SUCCESS')
SELECT l.cause_event_id FROM stock_ledger l LEFT JOIN inbox i ON i.consumer='inventory' AND i.event_id=l.cause_event_id AND i.status IN ('APPLIED','SUCCESS') WHERE i.event_id IS NULL
UNION ALL SELECT i.event_id FROM inbox i JOIN outbox e ON e.event_id=i.event_id AND e.event_type='order.created' JOIN orders o ON o.order_id=e.aggregate_id AND o.status='RESERVED' LEFT JOIN stock_ledger l ON l.cause_event_id=i.event_id WHERE i.consumer='inventory' AND i.status IN ('APPLIED','SUCCESS') GROUP BY i.event_id HAVING COUNT(l.ledger_id)<>(SELECT COUNT(*) FROM order_items n WHERE n.order_id=o.order_id);

-- name: H9 no order goes back: its status is what its last event says
-- checked: SELECT COUNT(*) FROM orders
SELECT o.order_id, o.status, e.event_type FROM orders o LEFT JOIN outbox e ON e.aggregate_type='order' AND e.aggregate_id=o.order_id AND e.aggregate_seq=o.version WHERE e.event_type IS NULL OR e.event_type<>CASE o.status WHEN 'CREATED' THEN 'order.created' WHEN 'RESERVED' THEN 'order.reserved' WHEN 'CANCELLED' THEN 'order.cancelled' END;

-- name: H10 every reaction has its cause: the service that emitted it had applied the event it names
-- checked: SELECT COUNT(*) FROM outbox WHERE causation_id<>''
SELECT e.event_id, e.causation_id FROM outbox e LEFT JOIN inbox i ON i.event_id=e.causation_id AND i.consumer=e.service AND i.status IN ('APPLIED','SUCCESS') WHERE e.causation_id<>'' AND i.event_id IS NULL;

-- name: K1 what the outbox calls published is in the broker's log, where it says
-- checked: SELECT COUNT(*) FROM outbox WHERE status='SENT'
SELECT e.event_id FROM outbox e LEFT JOIN broker_log b ON b.topic=e.topic AND b.broker_partition=e.broker_partition AND b.broker_offset=e.broker_offset WHERE e.status='SENT' AND (b.event_id IS NULL OR b.event_id<>e.event_id);

-- name: K2 the broker's log holds nothing that no outbox emitted, and every payload is byte for byte what was committed
-- checked: SELECT COUNT(*) FROM broker_log
SELECT b.broker_partition, b.broker_offset, b.event_id FROM broker_log b LEFT JOIN outbox e ON e.event_id=b.event_id LEFT JOIN planted p ON p.topic=b.topic AND p.broker_partition=b.broker_partition AND p.broker_offset=b.broker_offset AND p.kind='foreign' WHERE p.kind IS NULL AND (e.event_id IS NULL OR e.payload_hash<>b.payload_hash OR e.aggregate_seq<>b.aggregate_seq OR e.aggregate_id<>b.aggregate_id);

-- name: K3 order per key in the broker's log: first copies of an aggregate's events stand in sequence, in one partition
-- checked: SELECT COUNT(DISTINCT event_id) FROM broker_log WHERE aggregate_seq>0
SELECT event_id FROM (SELECT event_id, seq, part, LAG(seq) OVER w AS before, LAG(part) OVER w AS before_part FROM (SELECT event_id, topic, aggregate_type, aggregate_id, aggregate_seq AS seq, broker_partition AS part, MIN(broker_offset) AS at FROM broker_log WHERE aggregate_seq>0 GROUP BY event_id) WINDOW w AS (PARTITION BY topic, aggregate_type, aggregate_id ORDER BY at)) WHERE seq<>COALESCE(before,0)+1 OR part<>before_part;
