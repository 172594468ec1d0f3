-- Each query returns the rows that violate the invariant; "checked" counts the rows it examined.
-- An invariant marked "optional" may have nothing to examine and is then left out of the report; any other one is violated by that.
-- One order that nobody could pay for, or that found no stock, is enough for all of those others.

-- name: I01 no fact without an event: every order has its first event
-- checked: SELECT COUNT(*) FROM orders
SELECT o.order_id FROM orders o LEFT JOIN outbox e ON e.aggregate_type='order' AND e.aggregate_id=o.order_id AND e.aggregate_seq=1 WHERE e.event_id IS NULL;

-- name: I02 no event without a fact: every event belongs to an order
-- checked: SELECT COUNT(*) FROM outbox
SELECT e.event_id, e.event_type FROM outbox e LEFT JOIN orders o ON o.order_id=e.aggregate_id WHERE o.order_id IS NULL;

-- name: I03 each state change of an order emitted exactly one event
-- checked: SELECT COUNT(*) FROM orders
SELECT o.order_id, o.version, COUNT(e.event_id) FROM orders o LEFT JOIN outbox e ON e.aggregate_type='order' AND e.aggregate_id=o.order_id GROUP BY o.order_id, o.version HAVING COUNT(e.event_id)<>o.version;

-- name: I04 the events of an aggregate are numbered 1, 2, 3 … without gap or repeat, all but timers
-- checked: SELECT COUNT(*) FROM outbox
SELECT aggregate_type, aggregate_id FROM outbox WHERE aggregate_type NOT IN ('order_timer','risk_timer') GROUP BY aggregate_type, aggregate_id HAVING MIN(aggregate_seq)<>1 OR MAX(aggregate_seq)<>COUNT(*) OR COUNT(*)<>COUNT(DISTINCT aggregate_seq)
UNION ALL SELECT aggregate_type, aggregate_id FROM outbox WHERE aggregate_type IN ('order_timer','risk_timer') AND (aggregate_seq<>0 OR not_before IS NULL);

-- name: I05 stock is never negative
-- checked: SELECT COUNT(*) FROM stock
SELECT sku FROM stock WHERE available<0 OR reserved<0 OR sold<0;

-- name: I06 stock is conserved: initial = available + reserved + sold
-- checked: SELECT COUNT(*) FROM stock
SELECT sku, initial_qty, available+reserved+sold FROM stock WHERE initial_qty<>available+reserved+sold;

-- name: I07 stock equals the replay of its ledger
-- checked: SELECT COUNT(*) FROM stock
SELECT s.sku FROM stock s LEFT JOIN (SELECT sku, SUM(d_available) AS a, SUM(d_reserved) AS r, SUM(d_sold) AS d FROM stock_ledger GROUP BY sku) l ON l.sku=s.sku WHERE s.available<>s.initial_qty+COALESCE(l.a,0) OR s.reserved<>COALESCE(l.r,0) OR s.sold<>COALESCE(l.d,0);

-- name: I08 reserved and sold equal the reservations that hold them
-- checked: SELECT COUNT(*) FROM reservations
SELECT s.sku FROM stock s LEFT JOIN (SELECT sku, SUM(CASE WHEN state='RESERVED' THEN qty ELSE 0 END) AS r, SUM(CASE WHEN state='CONFIRMED' THEN qty ELSE 0 END) AS c FROM reservations GROUP BY sku) x ON x.sku=s.sku WHERE s.reserved<>COALESCE(x.r,0) OR s.sold<>COALESCE(x.c,0);

-- name: I09 at most one effective reservation for an order line
-- checked: SELECT COUNT(*) FROM reservations
SELECT order_id, sku, COUNT(*) FROM reservations WHERE state IN ('RESERVED','CONFIRMED') GROUP BY order_id, sku HAVING COUNT(*)>1;

-- name: I10 every line of an order that holds stock has one reservation of the right quantity, sold once it is completed
-- checked: SELECT COUNT(*) FROM order_items i JOIN orders o ON o.order_id=i.order_id WHERE o.status IN ('RESERVED','CONFIRMED','PAID','COMPLETED')
-- optional
SELECT i.order_id, i.sku FROM order_items i JOIN orders o ON o.order_id=i.order_id LEFT JOIN reservations r ON r.order_id=i.order_id AND r.sku=i.sku AND (r.state='CONFIRMED' OR r.state='RESERVED' AND o.status<>'COMPLETED') WHERE o.status IN ('RESERVED','CONFIRMED','PAID','COMPLETED') GROUP BY i.order_id, i.sku, i.qty HAVING COUNT(r.reservation_id)<>1 OR SUM(COALESCE(r.qty,0))<>i.qty;

-- name: I11 a cancelled order holds no stock
-- checked: SELECT COUNT(*) FROM orders WHERE status='CANCELLED'
-- optional
SELECT r.reservation_id FROM reservations r JOIN orders o ON o.order_id=r.order_id WHERE o.status='CANCELLED' AND r.state IN ('RESERVED','CONFIRMED');

-- name: I12 no reservation, payment, assessment, shipment or reward without an order
-- checked: SELECT COUNT(*) FROM reservations
SELECT x.kind, x.order_id FROM (SELECT 'reservation' AS kind, order_id FROM reservations UNION ALL SELECT 'payment', order_id FROM payments UNION ALL SELECT 'assessment', order_id FROM assessments UNION ALL SELECT 'shipment', order_id FROM shipments UNION ALL SELECT 'reward', order_id FROM rewards) x LEFT JOIN orders o ON o.order_id=x.order_id WHERE o.order_id IS NULL;

-- name: I13 nobody pays twice: an order has at most one capture, and what was taken is never more than its amount; what payment calls taken was
-- checked: SELECT (SELECT COUNT(*) FROM outside_ledger WHERE kind='capture')+(SELECT COUNT(*) FROM payments WHERE state IN ('CAPTURED','REFUNDED') AND amount_cents>0)
-- optional
SELECT l.order_id, COUNT(*) AS captures, SUM(l.amount_cents) AS taken, o.amount_cents FROM outside_ledger l LEFT JOIN orders o ON o.order_id=l.order_id WHERE l.kind='capture' GROUP BY l.order_id HAVING COUNT(*)>1 OR o.amount_cents IS NULL OR SUM(l.amount_cents)>o.amount_cents
UNION ALL SELECT p.order_id, 0, 0, p.amount_cents FROM payments p LEFT JOIN outside_ledger l ON l.order_id=p.order_id AND l.kind='capture' WHERE p.state IN ('CAPTURED','REFUNDED') AND p.amount_cents>0 AND l.order_id IS NULL;

-- name: I14 a completed order was paid exactly its amount, and what a cancelled one paid was given back
-- checked: SELECT COUNT(*) FROM orders WHERE status IN ('COMPLETED','CANCELLED')
SELECT o.order_id, o.status, o.amount_cents, SUM(l.kind='capture') AS captures, COALESCE(SUM(CASE l.kind WHEN 'capture' THEN l.amount_cents ELSE -l.amount_cents END),0) AS net FROM orders o LEFT JOIN outside_ledger l ON l.order_id=o.order_id AND l.kind IN ('capture','refund')
WHERE o.status IN ('COMPLETED','CANCELLED') GROUP BY o.order_id HAVING net<>CASE o.status WHEN 'COMPLETED' THEN o.amount_cents ELSE 0 END OR o.status='COMPLETED' AND COUNT(l.kind)<>(o.amount_cents>0);

-- name: I15 every failure is visible: each event is done at each of its consumers, waits for a retry, or is a dead letter
-- checked: SELECT COUNT(*) FROM outbox e JOIN subscription s ON s.event_type=e.event_type
SELECT e.event_id, s.consumer FROM outbox e JOIN subscription s ON s.event_type=e.event_type LEFT JOIN inbox i ON i.consumer=s.consumer AND i.event_id=e.event_id AND i.status NOT IN ('PARKED','DEAD','PROCESSING','FAILED') LEFT JOIN retry_message r ON r.consumer=s.consumer AND r.event_id=e.event_id LEFT JOIN dead_letter d ON d.consumer=s.consumer AND d.event_id=e.event_id WHERE e.status='SENT' AND i.event_id IS NULL AND r.event_id IS NULL AND d.event_id IS NULL;

-- name: I16 no double book-keeping: what is done waits nowhere and is no open dead letter
-- checked: SELECT COUNT(*) FROM inbox WHERE status IN ('APPLIED','SUCCESS','REJECTED','COMPENSATED')
SELECT i.consumer, i.event_id FROM inbox i LEFT JOIN retry_message r ON r.consumer=i.consumer AND r.event_id=i.event_id LEFT JOIN dead_letter d ON d.consumer=i.consumer AND d.event_id=i.event_id AND d.state IN ('OPEN','REPLAYING','COMPENSATING') WHERE i.status IN ('APPLIED','SUCCESS','REJECTED','COMPENSATED') AND (r.event_id IS NOT NULL OR d.event_id IS NOT NULL);

-- name: I17 nothing was processed that was never emitted, nor with another payload
-- checked: SELECT COUNT(*) FROM inbox WHERE status IN ('APPLIED','SUCCESS','REJECTED','COMPENSATED')
SELECT i.consumer, i.event_id FROM inbox i LEFT JOIN outbox e ON e.event_id=i.event_id WHERE i.status IN ('APPLIED','SUCCESS','REJECTED','COMPENSATED') AND (e.event_id IS NULL OR SUBSTR(e.payload_hash,1,16)<>i.payload_hash);

-- name: I18 order per key: each consumer took an aggregate's events in sequence
-- checked: SELECT COUNT(*) FROM inbox i JOIN outbox e ON e.event_id=i.event_id WHERE i.status IN ('APPLIED','SUCCESS','REJECTED','COMPENSATED') AND e.aggregate_seq>0
SELECT consumer, event_id FROM (SELECT i.consumer, i.event_id, e.aggregate_seq AS seq, LAG(e.aggregate_seq) OVER (PARTITION BY i.consumer, e.aggregate_type, e.aggregate_id ORDER BY i.processed_no) AS before FROM inbox i JOIN outbox e ON e.event_id=i.event_id WHERE i.status IN ('APPLIED','SUCCESS','REJECTED','COMPENSATED') AND e.aggregate_seq>0) WHERE before IS NOT NULL AND seq<before;

-- name: I20 the outboxes are drained: every event was published or passed by a person
-- checked: SELECT COUNT(*) FROM outbox
SELECT event_id, status FROM outbox WHERE status NOT IN ('SENT','SKIPPED','DISCARDED');

-- name: I21 one effect for one cause: no ledger line twice for an event, article and kind
-- checked: SELECT COUNT(*) FROM stock_ledger
-- optional
SELECT cause_event_id, sku, kind, COUNT(*) FROM stock_ledger GROUP BY cause_event_id, sku, kind HAVING COUNT(*)>1;

-- name: I22 closed dead letters say who and when, open ones have a due time
-- checked: SELECT COUNT(*) FROM dead_letter
-- optional
SELECT service, id, state FROM dead_letter WHERE (state IN ('REPLAYED','COMPENSATED','DISCARDED') AND (closed_at IS NULL OR COALESCE(closed_by,'')='')) OR due_at<=opened_at;

-- name: I23 whoever closed a dead letter is in the audit log
-- checked: SELECT COUNT(*) FROM dead_letter WHERE state IN ('REPLAYING','REPLAYED','COMPENSATING','COMPENSATED','DISCARDED')
-- optional
SELECT d.service, d.id FROM dead_letter d LEFT JOIN audit_log a ON a.service=d.service AND a.target=COALESCE(NULLIF(d.consumer,''),'relay')||':'||d.event_id AND a.action=CASE d.state WHEN 'DISCARDED' THEN 'dlq.discard' WHEN 'REPLAYING' THEN 'dlq.replay' WHEN 'REPLAYED' THEN 'dlq.replay' ELSE 'dlq.compensate' END WHERE d.state IN ('REPLAYING','REPLAYED','COMPENSATING','COMPENSATED','DISCARDED') AND a.seq IS NULL;

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

-- name: H4 effects happened once: every movement of stock has its entry in the consume log, every order.created of a completed order moved each of its lines
-- checked: SELECT COUNT(*) FROM inbox WHERE consumer='inventory' AND status IN ('APPLIED','SUCCESS')
SELECT l.cause_event_id FROM stock_ledger l LEFT JOIN inbox i ON i.consumer='inventory' AND i.event_id=l.cause_event_id AND i.status IN ('APPLIED','SUCCESS') WHERE i.event_id IS NULL
UNION ALL SELECT i.event_id FROM inbox i JOIN outbox e ON e.event_id=i.event_id AND e.event_type='order.created' JOIN orders o ON o.order_id=e.aggregate_id AND o.status='COMPLETED' LEFT JOIN stock_ledger l ON l.cause_event_id=i.event_id AND l.kind='RESERVE' WHERE i.consumer='inventory' AND i.status IN ('APPLIED','SUCCESS') GROUP BY i.event_id HAVING COUNT(l.ledger_id)<>(SELECT COUNT(*) FROM order_items n WHERE n.order_id=o.order_id);

-- name: H8 what was given up had no effect but its compensation, and that once
-- checked: SELECT COUNT(*) FROM dead_letter WHERE state='COMPENSATED'
-- optional
SELECT d.service, d.id, d.event_id FROM dead_letter d LEFT JOIN inbox i ON i.consumer=d.consumer AND i.event_id=d.event_id AND i.status='COMPENSATED' WHERE d.state='COMPENSATED' AND (i.event_id IS NULL
  OR EXISTS (SELECT 1 FROM stock_ledger l WHERE l.cause_event_id=d.event_id AND d.consumer='inventory') OR EXISTS (SELECT 1 FROM points_ledger l WHERE l.cause_event_id=d.event_id AND d.consumer='marketing')
  OR (SELECT COUNT(*) FROM outbox e WHERE e.causation_id=d.event_id AND e.service=d.service)>1);

-- name: H9 no order goes back: its status is what its last event says, and nothing follows its end
-- checked: SELECT COUNT(*) FROM orders
SELECT o.order_id, o.status, e.event_type FROM orders o LEFT JOIN outbox e ON e.aggregate_type='order' AND e.aggregate_id=o.order_id AND e.aggregate_seq=o.version WHERE e.event_type IS NULL
  OR e.event_type<>'order.'||LOWER(o.status) AND NOT (e.event_type='order.pay_requested' AND o.status IN ('CREATED','RESERVED','APPROVED','CONFIRMED'))
UNION ALL SELECT o.order_id, o.status, e.event_type FROM outbox e JOIN orders o ON o.order_id=e.aggregate_id WHERE e.aggregate_type='order' AND e.event_type IN ('order.completed','order.cancelled') AND e.aggregate_seq<o.version;

-- name: H10 every reaction has its cause: the service that emitted it had applied the event it names
-- checked: SELECT COUNT(*) FROM outbox WHERE causation_id<>''
SELECT e.event_id, e.causation_id FROM outbox e LEFT JOIN inbox i ON i.event_id=e.causation_id AND i.consumer=e.service AND i.status IN ('APPLIED','SUCCESS','COMPENSATED') WHERE e.causation_id<>'' AND i.event_id IS NULL;

-- name: K1 what the outbox calls published is in the broker's log, where it says, if the broker tells places
-- checked: SELECT COUNT(*) FROM outbox WHERE status='SENT'
SELECT e.event_id FROM outbox e LEFT JOIN broker_log b ON b.topic=e.topic AND b.broker_partition=e.broker_partition AND b.broker_offset=e.broker_offset WHERE e.status='SENT' AND e.broker_offset IS NOT NULL AND (b.event_id IS NULL OR b.event_id<>e.event_id)
UNION ALL SELECT e.event_id FROM outbox e LEFT JOIN broker_log b ON b.event_id=e.event_id AND b.topic=e.topic WHERE e.status='SENT' AND e.broker_offset IS NULL AND b.event_id IS NULL;

-- name: K2 the broker's log holds nothing that no outbox emitted, and every payload is byte for byte what was committed
-- checked: SELECT COUNT(*) FROM broker_log
SELECT b.broker_partition, b.broker_offset, b.event_id FROM broker_log b LEFT JOIN outbox e ON e.event_id=b.event_id LEFT JOIN planted p ON p.topic=b.topic AND p.broker_partition=b.broker_partition AND p.broker_offset=b.broker_offset AND p.kind='foreign' WHERE p.kind IS NULL AND (e.event_id IS NULL OR e.payload_hash<>b.payload_hash OR e.aggregate_seq<>b.aggregate_seq OR e.aggregate_id<>b.aggregate_id);

-- name: K3 order per key in the broker's log: first copies of an aggregate's events stand in sequence, in one partition
-- checked: SELECT COUNT(DISTINCT event_id) FROM broker_log WHERE aggregate_seq>0
SELECT event_id FROM (SELECT event_id, seq, part, LAG(seq) OVER w AS before, LAG(part) OVER w AS before_part FROM (SELECT event_id, topic, aggregate_type, aggregate_id, aggregate_seq AS seq, broker_partition AS part, MIN(broker_offset) AS at FROM broker_log WHERE aggregate_seq>0 GROUP BY event_id) WINDOW w AS (PARTITION BY topic, aggregate_type, aggregate_id ORDER BY at)) WHERE seq<>COALESCE(before,0)+1 OR part<>before_part;

-- name: S1 the units are all there: what was sold and what is available make what there was, nothing stays reserved
-- checked: SELECT COUNT(*) FROM stock
SELECT sku, initial_qty, available, reserved, sold FROM stock WHERE sold+available<>initial_qty OR reserved<>0;

-- name: S2 the units sold are those of completed orders, line by line
-- checked: SELECT COUNT(*) FROM order_items
SELECT i.order_id, i.sku, o.status, i.qty, COALESCE(SUM(l.d_sold),0) AS sold, COALESCE(SUM(l.d_reserved),0) AS reserved FROM order_items i JOIN orders o ON o.order_id=i.order_id LEFT JOIN reservations r ON r.order_id=i.order_id AND r.sku=i.sku LEFT JOIN stock_ledger l ON l.reservation_id=r.reservation_id AND l.sku=i.sku
WHERE o.status IN ('COMPLETED','CANCELLED') GROUP BY i.order_id, i.sku HAVING sold<>CASE o.status WHEN 'COMPLETED' THEN i.qty ELSE 0 END OR reserved<>0;

-- name: M1 the money is right to the cent: what the provider took and did not give back is what the completed orders cost
-- checked: SELECT (SELECT COUNT(*) FROM outside_ledger WHERE kind IN ('capture','refund'))+(SELECT COUNT(*) FROM orders WHERE status='COMPLETED' AND amount_cents>0)
-- optional
SELECT captured, refunded, completed FROM (SELECT (SELECT COALESCE(SUM(amount_cents),0) FROM outside_ledger WHERE kind='capture') AS captured, (SELECT COALESCE(SUM(amount_cents),0) FROM outside_ledger WHERE kind='refund') AS refunded, (SELECT COALESCE(SUM(amount_cents),0) FROM orders WHERE status='COMPLETED') AS completed) WHERE captured-refunded<>completed;

-- name: M2 an order costs what its client was asked for, and belongs to that client
-- checked: SELECT COUNT(*) FROM orders
SELECT o.order_id, o.amount_cents, q.amount_cents AS asked, o.customer_id FROM orders o JOIN client_request q ON q.request_key=o.request_key WHERE o.amount_cents<>q.amount_cents OR o.customer_id<>q.customer_id;

-- name: M3 the provider's books are in order: a refund follows a capture and is no larger, nothing is captured where it was voided, nobody else's money moved
-- checked: SELECT COUNT(*) FROM outside_ledger WHERE system='provider'
-- optional
SELECT l.order_id, 'money moved that no order explains' AS what FROM outside_ledger l LEFT JOIN orders o ON o.order_id=l.order_id WHERE l.system='provider' AND (o.order_id IS NULL OR l.kind='capture' AND l.customer_id<>o.customer_id OR l.kind IN ('capture','refund') AND l.amount_cents<=0)
UNION ALL SELECT order_id, 'given back what was not taken' FROM outside_ledger WHERE kind IN ('capture','refund') GROUP BY order_id HAVING SUM(CASE kind WHEN 'refund' THEN amount_cents ELSE 0 END)>SUM(CASE kind WHEN 'capture' THEN amount_cents ELSE 0 END)
UNION ALL SELECT c.order_id, 'captured and voided, not given back' FROM outside_ledger c JOIN outside_ledger v ON v.order_id=c.order_id AND v.kind='void' LEFT JOIN outside_ledger r ON r.order_id=c.order_id AND r.kind='refund' WHERE c.kind='capture' AND r.order_id IS NULL;

-- name: M4 each payment's state is what the provider's books say
-- checked: SELECT COUNT(*) FROM payments
SELECT p.order_id, p.state, p.amount_cents, COALESCE(SUM(CASE l.kind WHEN 'capture' THEN l.amount_cents ELSE -l.amount_cents END),0) AS net FROM payments p LEFT JOIN outside_ledger l ON l.order_id=p.order_id AND l.kind IN ('capture','refund') GROUP BY p.order_id
HAVING net<>CASE p.state WHEN 'CAPTURED' THEN p.amount_cents ELSE 0 END OR p.state='REFUNDED' AND COUNT(l.kind)<>2*(p.amount_cents>0) OR p.state='DECLINED' AND COUNT(l.kind)>0
UNION ALL SELECT o.order_id, COALESCE(p.state,'none'), o.amount_cents, 0 FROM orders o LEFT JOIN payments p ON p.order_id=o.order_id WHERE o.status='COMPLETED' AND (p.state IS NULL OR p.state<>'CAPTURED' OR p.amount_cents<>o.amount_cents);

-- name: R1 every coupon that is out is one that marketing knows of, once; where a dead letter waits, nobody knows yet
-- checked: SELECT (SELECT COUNT(*) FROM rewards)+(SELECT COUNT(*) FROM dead_letter WHERE consumer='marketing' AND state='OPEN')
SELECT x.order_id, x.coupons, x.revocations, COALESCE(r.coupon,'') AS coupon FROM (SELECT order_id, SUM(kind='coupon') AS coupons, SUM(kind='revocation') AS revocations FROM (SELECT order_id, kind FROM outside_ledger WHERE kind IN ('coupon','revocation') UNION ALL SELECT order_id, '' FROM rewards) GROUP BY order_id) x LEFT JOIN rewards r ON r.order_id=x.order_id
WHERE (x.coupons>1 OR (x.coupons=1 AND x.revocations=0)<>(COALESCE(r.coupon,'')<>'')) AND NOT EXISTS (SELECT 1 FROM dead_letter d WHERE d.aggregate_id=x.order_id AND d.consumer='marketing' AND d.state='OPEN' AND x.coupons<=1)
UNION ALL SELECT l.order_id, 0, 0, l.customer_id FROM outside_ledger l LEFT JOIN orders o ON o.order_id=l.order_id WHERE l.kind='coupon' AND (o.order_id IS NULL OR l.customer_id<>o.customer_id);

-- name: R2 points are granted once: a customer's ledger is what the rewards say
-- checked: SELECT COUNT(*) FROM orders
SELECT x.order_id, SUM(x.b) AS booked, SUM(x.r) AS rewarded, SUM(x.g) AS grants FROM (SELECT order_id, points AS b, 0 AS r, kind='GRANT' AS g FROM points_ledger UNION ALL SELECT order_id, 0, CASE state WHEN 'GRANTED' THEN points ELSE 0 END, 0 FROM rewards) x GROUP BY x.order_id HAVING booked<>rewarded OR grants>1
UNION ALL SELECT l.order_id, l.points, 0, 0 FROM points_ledger l LEFT JOIN orders o ON o.order_id=l.order_id WHERE o.order_id IS NULL OR o.customer_id<>l.customer_id;

-- name: R3 every completed order has its reward, unless a dead letter says why not; a cancelled one has none
-- checked: SELECT COUNT(*) FROM orders WHERE status IN ('COMPLETED','CANCELLED')
SELECT o.order_id, o.status, COALESCE(r.state,'none') AS reward FROM orders o LEFT JOIN rewards r ON r.order_id=o.order_id WHERE (o.status='COMPLETED' AND COALESCE(r.state,'')<>'GRANTED' OR o.status='CANCELLED' AND r.state='GRANTED')
  AND NOT EXISTS (SELECT 1 FROM dead_letter d WHERE d.aggregate_id=o.order_id AND d.consumer='marketing' AND d.state IN ('OPEN','COMPENSATED','DISCARDED'));

-- name: F1 the carrier ships once for each completed order, and for no cancelled one
-- checked: SELECT COUNT(*) FROM orders WHERE status IN ('COMPLETED','CANCELLED')
SELECT o.order_id, o.status, SUM(l.kind='shipment') AS shipments, SUM(l.kind='cancellation') AS stopped, s.state FROM orders o LEFT JOIN outside_ledger l ON l.order_id=o.order_id AND l.kind IN ('shipment','cancellation') LEFT JOIN shipments s ON s.order_id=o.order_id WHERE o.status IN ('COMPLETED','CANCELLED') GROUP BY o.order_id
HAVING COALESCE(shipments,0)>1 OR (COALESCE(shipments,0)=1 AND stopped=0)<>(o.status='COMPLETED') OR (COALESCE(s.state,'')='SHIPPED')<>(o.status='COMPLETED')
UNION ALL SELECT l.order_id, '', 0, 0, '' FROM outside_ledger l LEFT JOIN orders o ON o.order_id=l.order_id WHERE l.kind='shipment' AND o.order_id IS NULL;

-- name: G1 no order went on without risk's approval, and none is held for ever
-- checked: SELECT COUNT(*) FROM assessments
SELECT o.order_id, o.status, COALESCE(a.state,'none') AS assessment FROM orders o LEFT JOIN assessments a ON a.order_id=o.order_id WHERE o.status='COMPLETED' AND COALESCE(a.state,'')<>'APPROVED' OR o.status='CANCELLED' AND a.state='HELD';

-- name: A1 whoever was told that the order is cancelled has it cancelled, and the money back
-- checked: SELECT COUNT(*) FROM client_act WHERE kind='cancel' AND accepted
-- optional
SELECT a.request_key, o.status, COALESCE(SUM(CASE l.kind WHEN 'capture' THEN l.amount_cents ELSE -l.amount_cents END),0) AS net FROM (SELECT DISTINCT request_key FROM client_act WHERE kind='cancel' AND accepted) a LEFT JOIN orders o ON o.request_key=a.request_key LEFT JOIN outside_ledger l ON l.order_id=o.order_id AND l.kind IN ('capture','refund') GROUP BY a.request_key HAVING o.status IS NULL OR o.status<>'CANCELLED' OR net<>0;

-- name: A2 whoever was told that the order is paid for has paid for it, or it was cancelled
-- checked: SELECT COUNT(*) FROM client_act WHERE kind='pay' AND accepted
-- optional
SELECT a.request_key, o.status, o.pay, COALESCE(SUM(l.amount_cents),0) AS taken FROM (SELECT DISTINCT request_key FROM client_act WHERE kind='pay' AND accepted) a LEFT JOIN orders o ON o.request_key=a.request_key LEFT JOIN outside_ledger l ON l.order_id=o.order_id AND l.kind='capture' GROUP BY a.request_key HAVING o.status IS NULL OR o.pay<>'now' OR o.status NOT IN ('COMPLETED','CANCELLED') OR o.status='COMPLETED' AND taken<>o.amount_cents;

-- name: A3 a refused request left nothing behind
-- checked: SELECT COUNT(*) FROM client_request WHERE refused
-- optional
SELECT q.request_key, o.order_id FROM client_request q LEFT JOIN orders o ON o.request_key=q.request_key LEFT JOIN client_answer a ON a.request_key=q.request_key WHERE q.refused AND (o.order_id IS NOT NULL OR a.request_key IS NOT NULL);

-- name: T1 an order whose customer never wanted to pay ended without money
-- checked: SELECT COUNT(*) FROM orders WHERE pay='later'
-- optional
SELECT o.order_id, o.status, COUNT(l.kind) AS captures FROM orders o LEFT JOIN outside_ledger l ON l.order_id=o.order_id AND l.kind='capture' WHERE o.pay='later' GROUP BY o.order_id HAVING o.status<>'CANCELLED' OR captures>0;

-- name: T2 every order has its timer, and no timer went off before its time
-- checked: SELECT COUNT(*) FROM outbox WHERE not_before IS NOT NULL
SELECT event_id, event_type FROM outbox WHERE not_before IS NOT NULL AND sent_at<not_before
UNION ALL SELECT o.order_id, 'order.payment_due' FROM orders o LEFT JOIN outbox e ON e.aggregate_type='order_timer' AND e.aggregate_id=o.order_id GROUP BY o.order_id HAVING COUNT(e.event_id)<>1;

-- name: T3 every order has ended, or a dead letter says why not
-- checked: SELECT COUNT(*) FROM orders
SELECT o.order_id, o.status FROM orders o WHERE o.status NOT IN ('COMPLETED','CANCELLED') AND NOT EXISTS (SELECT 1 FROM dead_letter d WHERE d.aggregate_id=o.order_id AND d.state='OPEN');
