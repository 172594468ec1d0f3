package springcontract_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestPooledIDsOfTwoInstancesAreAllSentAndNamedByDoctor has two processes give
// out ids of their own fifty, so that rows are committed long after those with
// higher ids; nobody can keep the order of a key that both write.
func TestPooledIDsOfTwoInstancesAreAllSentAndNamedByDoctor(t *testing.T) {
	d := newDatabase(t)
	a, b := start(t, d, "pooled"), start(t, d, "pooled")
	left, right := order(t, a, "left", 0), order(t, b, "right", 0)
	left.more(2 * customers)
	right.more(2 * customers)
	adopt(t, d)
	r := serve(t, d, t.TempDir())
	left.more(10 * customers)
	right.more(10 * customers)
	want := left.stop(t)
	maps.Copy(want, right.stop(t))
	d.await(t, "all is sent", allSent)
	keys, _ := firstCopies(readTopic(t, r.broker))
	for key, ids := range want {
		got := slices.Sorted(slices.Values(keys[key]))
		if !slices.Equal(got, slices.Sorted(slices.Values(ids))) {
			t.Errorf("key %s has the events %v, want %v", key, got, ids)
		}
	}
	late := one[int](t, d, `SELECT count(*) FROM (SELECT id < max(id) OVER (ORDER BY created_at ROWS UNBOUNDED PRECEDING) AS late FROM t_outbox_event) o WHERE late`)
	t.Logf("%d of %d rows came after one with a higher id", late, one[int](t, d, `SELECT count(*) FROM t_outbox_event`))
	if late == 0 {
		t.Error("no row came late: the test has shown nothing")
	}
	if said := command(t, 1, "doctor", "--db", d.adopted()); !strings.Contains(said, "bad   pooled_ids: ids of public.t_outbox_event are taken in blocks of 50") {
		t.Errorf("doctor says\n%s", said)
	}
}
