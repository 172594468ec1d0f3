package springcontract_test

import "testing"

func TestTheServiceRelaysItsOwnEventsAsLongAsNothingGoesWrong(t *testing.T) {
	d := newDatabase(t)
	s := start(t, d, "relay")
	orders := order(t, s, "alone", 0)
	orders.more(20)
	want := orders.stop(t)
	d.await(t, "all is sent", `SELECT NOT EXISTS (SELECT FROM t_outbox_event WHERE status <> 'SENT')`)
	expect(t, sentBySpring(t, d), want, d.events(t))
	if ahead := one[bool](t, d, `SELECT bool_and(created_at > now() AT TIME ZONE 'UTC' + interval '7 hours') FROM t_outbox_event`); !ahead {
		t.Error("the times of the table are not Shanghai's")
	}
	s.stop(t)
}

func TestTheServicesConsumerRecordsWhatItHasDone(t *testing.T) {
	d := newDatabase(t)
	s := start(t, d)
	good, bad := s.create(t, "good", "1.50"), s.create(t, "bad", "-1")
	value := d.events(t)
	for range 2 {
		if err := s.postText("/messages", value[good.EventID], nil); err != nil {
			t.Error(err)
		}
	}
	if err := s.postText("/messages", value[bad.EventID], nil); err == nil {
		t.Error("a message that can't be applied is acknowledged")
	}
	const logged = `SELECT string_agg(biz_key || ' ' || status, ', ' ORDER BY biz_key) FROM t_message_consume_log WHERE consumer_group = 'inventory'`
	if got := one[string](t, d, logged); got != "bad FAILED, good SUCCESS" {
		t.Errorf("the log says %s", got)
	}
	if n := one[int](t, d, `SELECT count(*) FROM t_reservation`); n != 1 {
		t.Errorf("%d orders are reserved", n)
	}
}
