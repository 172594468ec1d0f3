package drill

import (
	"fmt"
	"slices"
	"strings"
)

// hears is which events each consumer group handles.
var hears = map[string][]string{
	"order":      {"inventory.reserved", "inventory.reserve_failed", "risk.approved", "risk.rejected", "payment.succeeded", "payment.failed", "fulfilment.shipped", "fulfilment.failed", "order.payment_due"},
	"inventory":  {"order.created", "order.paid", "order.cancelled"},
	"payment":    {"order.created", "order.confirmed", "order.pay_requested", "order.cancelled"},
	"risk":       {"order.created", "risk.review_due", "order.cancelled"},
	"fulfilment": {"order.paid", "order.cancelled"},
	"marketing":  {"order.paid", "order.cancelled"},
}

// chronicle writes down events as the services of a shop would: in the outbox,
// in the broker's log, and in the consume log of every group that handles them.
// An event's id is ORDER/TYPE.
type chronicle struct {
	text strings.Builder
	last int // event
	seq  map[string]int
}

// emit writes one event; cause is the type of the order's event that led to it.
func (c *chronicle) emit(order, eventType, cause string) {
	service, _, _ := strings.Cut(eventType, ".")
	aggregate := map[string]string{"order": "order", "inventory": "reservation", "payment": "payment", "risk": "assessment", "fulfilment": "shipment", "marketing": "reward"}[service]
	seq, notBefore := 0, "NULL"
	if strings.HasSuffix(eventType, "_due") {
		aggregate, notBefore = service+"_timer", "1"
	} else {
		c.seq[aggregate+order]++
		seq = c.seq[aggregate+order]
	}
	if cause != "" {
		cause = order + "/" + cause
	}
	c.last++
	id, partition := order+"/"+eventType, order[1:]
	c.write("INSERT INTO outbox VALUES('%s','%s','%s','%s','%s','%s',%d,'h%d','SENT',%d,%s,%d,'t',%s,%d);",
		id, cause, service, eventType, aggregate, order, seq, c.last, c.last, notBefore, c.last+1, partition, c.last)
	c.write("INSERT INTO broker_log VALUES('t',%s,%d,'%s','%s','%s',%d,'h%d');", partition, c.last, id, aggregate, order, seq, c.last)
	for group, types := range hears {
		if slices.Contains(types, eventType) {
			c.write("INSERT INTO inbox VALUES('%s','%s','APPLIED','%s',1,'h%d',%d,%d);", group, id, order, c.last, c.last, c.last+2)
		}
	}
}

func (c *chronicle) write(format string, args ...any) {
	_, _ = fmt.Fprintf(&c.text, format+"\n", args...)
}

// placed, confirmed and paid are the beginnings of an order's way.
func (c *chronicle) placed(order string) {
	c.emit(order, "order.created", "")
	c.emit(order, "order.payment_due", "")
	c.emit(order, "payment.created", "order.created")
}

func (c *chronicle) confirmed(order string) {
	c.placed(order)
	c.emit(order, "inventory.reserved", "order.created")
	c.emit(order, "order.reserved", "inventory.reserved")
	c.emit(order, "risk.approved", "order.created")
	c.emit(order, "order.confirmed", "risk.approved")
}

func (c *chronicle) paid(order, cause string) {
	c.emit(order, "payment.succeeded", cause)
	c.emit(order, "order.paid", "payment.succeeded")
	c.emit(order, "inventory.sold", "order.paid")
}

func (c *chronicle) completed(order string) {
	c.emit(order, "fulfilment.shipped", "order.paid")
	c.emit(order, "order.completed", "fulfilment.shipped")
}

// goodState is a state in which every invariant has something to examine and
// holds.
func goodState() string {
	c := &chronicle{seq: map[string]int{}}
	for group, types := range hears {
		for _, eventType := range types {
			c.write("INSERT INTO subscription VALUES('%s','%s');", group, eventType)
		}
	}
	c.confirmed("o1") // a reward with a coupon
	c.paid("o1", "order.confirmed")
	c.emit("o1", "marketing.granted", "order.paid")
	c.completed("o1")

	c.placed("o2") // not enough stock
	c.emit("o2", "risk.approved", "order.created")
	c.emit("o2", "inventory.reserve_failed", "order.created")
	c.emit("o2", "order.cancelled", "inventory.reserve_failed")
	c.emit("o2", "payment.voided", "order.cancelled")

	c.confirmed("o3") // its order.created was a dead letter of the inventory
	c.paid("o3", "order.confirmed")
	c.emit("o3", "marketing.granted", "order.paid")
	c.completed("o3")

	c.confirmed("o4") // never paid
	c.emit("o4", "order.cancelled", "order.payment_due")
	c.emit("o4", "inventory.released", "order.cancelled")
	c.emit("o4", "payment.voided", "order.cancelled")

	c.confirmed("o5") // paid while its customer cancelled
	c.emit("o5", "payment.succeeded", "order.confirmed")
	c.emit("o5", "order.cancelled", "")
	c.emit("o5", "inventory.released", "order.cancelled")
	c.emit("o5", "payment.refunded", "order.cancelled")

	c.confirmed("o6") // paid later; its reward is a dead letter that is open
	c.emit("o6", "order.pay_requested", "")
	c.paid("o6", "order.pay_requested")
	c.completed("o6")

	c.confirmed("o7") // its shipment was given up
	c.paid("o7", "order.confirmed")
	c.emit("o7", "marketing.granted", "order.paid")
	c.emit("o7", "fulfilment.failed", "order.paid")
	c.emit("o7", "order.cancelled", "fulfilment.failed")
	c.emit("o7", "inventory.released", "order.cancelled")
	c.emit("o7", "payment.refunded", "order.cancelled")
	c.emit("o7", "marketing.revoked", "order.cancelled")
	c.text.WriteString(goodTables)
	return c.text.String()
}

const goodTables = `
UPDATE inbox SET status='DEAD' WHERE consumer='marketing' AND event_id='o6/order.paid';
UPDATE inbox SET status='COMPENSATED' WHERE consumer='fulfilment' AND event_id='o7/order.paid';
INSERT INTO client_request VALUES('k1','c1',1000,0),('k2','c2',500,0),('k3','c1',200,0),('k4','c3',300,0),('k5','c2',400,0),('k6','c4',700,0),('k7','c5',600,0),('k8','c6',9999999,1);
INSERT INTO client_item VALUES('k1','a',2),('k2','b',1),('k3','a',1),('k4','a',1),('k5','a',1),('k6','a',1),('k7','a',1),('k8','a',1);
INSERT INTO client_answer VALUES('k1','o1'),('k1','o1'),('k2','o2'),('k3','o3'),('k4','o4'),('k5','o5'),('k6','o6'),('k7','o7');
INSERT INTO client_act VALUES('k5','cancel',1),('k5','pay',0),('k6','pay',1),('k6','cancel',0);
INSERT INTO orders VALUES
 ('o1','k1','c1','COMPLETED',1000,'now',5,1,5),('o2','k2','c2','CANCELLED',500,'now',2,1,5),('o3','k3','c1','COMPLETED',200,'now',5,1,9),('o4','k4','c3','CANCELLED',300,'later',4,1,9),
 ('o5','k5','c2','CANCELLED',400,'now',4,1,9),('o6','k6','c4','COMPLETED',700,'now',6,1,9),('o7','k7','c5','CANCELLED',600,'now',5,1,9);
INSERT INTO order_items VALUES('o1','a',2),('o2','b',1),('o3','a',1),('o4','a',1),('o5','a',1),('o6','a',1),('o7','a',1);
INSERT INTO stock VALUES('a',10,6,0,4),('b',0,0,0,0);
INSERT INTO reservations VALUES('r1','o1','a',2,'CONFIRMED',3,3),('r2','o2','b',1,'INIT',3,3),('r3','o3','a',1,'CONFIRMED',3,3),('r4','o4','a',1,'RELEASED',3,3),('r5','o5','a',1,'RELEASED',3,3),('r6','o6','a',1,'CONFIRMED',3,3),('r7','o7','a',1,'RELEASED',3,3);
INSERT INTO stock_ledger VALUES
 ('l1','a','RESERVE',-2,2,0,'r1','o1/order.created',2),('l2','a','SELL',0,-2,2,'r1','o1/order.paid',2),('l3','a','RESERVE',-1,1,0,'r3','o3/order.created',2),('l4','a','SELL',0,-1,1,'r3','o3/order.paid',2),
 ('l5','a','RESERVE',-1,1,0,'r4','o4/order.created',2),('l6','a','RELEASE',1,-1,0,'r4','o4/order.cancelled',2),('l7','a','RESERVE',-1,1,0,'r5','o5/order.created',2),('l8','a','RELEASE',1,-1,0,'r5','o5/order.cancelled',2),
 ('l9','a','RESERVE',-1,1,0,'r6','o6/order.created',2),('l10','a','SELL',0,-1,1,'r6','o6/order.paid',2),
 ('l11','a','RESERVE',-1,1,0,'r7','o7/order.created',2),('l12','a','SELL',0,-1,1,'r7','o7/order.paid',2),('l13','a','RETURN',1,0,-1,'r7','o7/order.cancelled',2);
INSERT INTO payments VALUES('o1','CAPTURED',1000,5),('o2','VOIDED',500,5),('o3','CAPTURED',200,5),('o4','VOIDED',300,5),('o5','REFUNDED',400,5),('o6','CAPTURED',700,5),('o7','REFUNDED',600,5);
INSERT INTO assessments VALUES('o1','APPROVED',5),('o2','APPROVED',5),('o3','APPROVED',5),('o4','APPROVED',5),('o5','APPROVED',5),('o6','APPROVED',5),('o7','APPROVED',5);
INSERT INTO shipments VALUES('o1','SHIPPED','t1',5),('o2','BARRED','',5),('o3','SHIPPED','t3',5),('o4','BARRED','',5),('o5','BARRED','',5),('o6','SHIPPED','t6',5),('o7','FAILED','',5);
INSERT INTO rewards VALUES('o1','GRANTED',10,'C1',5),('o2','BARRED',0,'',5),('o3','GRANTED',2,'',5),('o4','BARRED',0,'',5),('o5','BARRED',0,'',5),('o7','REVOKED',0,'',5);
INSERT INTO points_ledger VALUES('o1/order.paid','GRANT','c1','o1',10),('o3/order.paid','GRANT','c1','o3',2),('o7/order.paid','GRANT','c5','o7',6),('o7/order.cancelled','REVOKE','c5','o7',-6);
INSERT INTO outside_ledger VALUES
 ('provider','capture:o1','capture','o1','c1',1000,5),('provider','void:o2','void','o2','c2',0,5),('provider','capture:o3','capture','o3','c1',200,5),('provider','void:o4','void','o4','',0,5),
 ('provider','capture:o5','capture','o5','c2',400,5),('provider','void:o5','void','o5','c2',0,5),('provider','void:o5 refund','refund','o5','c2',400,5),('provider','capture:o6','capture','o6','c4',700,5),
 ('provider','capture:o7','capture','o7','c5',600,5),('provider','void:o7','void','o7','c5',0,5),('provider','void:o7 refund','refund','o7','c5',600,5),
 ('coupons','coupon:o1','coupon','o1','c1',100,5),('coupons','coupon:o7','coupon','o7','c5',60,5),('coupons','revocation:o7','revocation','o7','',0,5),
 ('carrier','shipment:o1','shipment','o1','',0,5),('carrier','shipment:o3','shipment','o3','',0,5),('carrier','shipment:o6','shipment','o6','',0,5),('carrier','cancellation:o7','cancellation','o7','',0,5);
INSERT INTO dead_letter VALUES
 (1,'inventory','inventory','o3/order.created','order.created','o3','handler_error','sku a is not stocked',4,'REPLAYED',1,100,50,'alice'),
 (2,'inventory','inventory','f1','','','undecodable','cut',0,'DISCARDED',1,100,50,'alice'),
 (1,'marketing','marketing','o6/order.paid','order.paid','o6','handler_error','the coupon system does not answer',4,'OPEN',1,100,NULL,NULL),
 (1,'fulfilment','fulfilment','o7/order.paid','order.paid','o7','handler_error','no such street',4,'COMPENSATED',1,100,50,'alice');
INSERT INTO audit_log VALUES
 ('inventory',1,1,'alice','dlq.replay','inventory:o3/order.created','','','A','A'),('inventory',2,2,'alice','dlq.discard','inventory:f1','cut','A','B','B'),
 ('order',1,1,'bob','control.pause','relay:','','','C','C'),('fulfilment',1,1,'alice','dlq.compensate','fulfilment:o7/order.paid','given up','','D','D');
INSERT INTO planted VALUES('t',1,1000,'foreign'),('t',1,1001,'duplicate');
INSERT INTO broker_log VALUES('t',1,1000,'','','',0,'hx'),('t',1,1001,'o1/order.created','order','o1',1,'h1');
`
