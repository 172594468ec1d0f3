package drill

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestNumbersOfAReportComeFromTheFacts(t *testing.T) {
	f := facts(t)
	plant(t, f, goodState())
	plant(t, f, `UPDATE inbox SET attempts=4 WHERE consumer='inventory' AND event_id='o3/order.created'; UPDATE inbox SET status='REJECTED' WHERE consumer='payment' AND event_id='o2/order.created';
UPDATE orders SET status='CREATED' WHERE order_id='o3'; UPDATE outbox SET status='PENDING' WHERE event_id='o3/order.completed';
UPDATE orders SET status='PAID' WHERE order_id='o6'; UPDATE dead_letter SET state='REPLAYING' WHERE service='inventory' AND id=2;
INSERT INTO broker_log VALUES('t',3,2000,'o1/order.paid','order','o1',4,'h'),('t',3,2001,'o1/order.paid','order','o1',4,'h')`)
	r := Report{DeadLettersLeft: 1}
	if err := f.Count(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	want := Report{
		Orders: OrderCounts{
			Accepted: 7, Completed: 1, Cancelled: 4, Unsettled: 1, Refused: 1, // o6 is explained by its dead letter
			CancelledFor: map[string]int64{"stock": 1, "time": 1, "customer": 1, "shipping": 1},
		},
		Money:           Money{Captured: 2900, Refunded: 1000, Net: 1900, Completed: 1000},
		Events:          EventCounts{Appended: 83, Published: 82, PublishedAgain: 2},
		Deliveries:      DeliveryCounts{Applied: 87, Rejected: 1, Retried: 9, Dead: 4},
		DeadLettersOpen: 2, DeadLettersLeft: 1,
		Letters: []Letter{{ID: "marketing:1", Service: "marketing", Class: "handler_error", EventType: "order.paid", Key: "o6", Reason: "the coupon system does not answer"}},
		Latency: Latencies{CommitToPublished: Quantiles{1e-6, 1e-6}, OrderToCompleted: Quantiles{4e-6, 4e-6}},
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("got  %+v\nwant %+v", r, want)
	}
	if r.Settled() {
		t.Error("it calls itself settled")
	}
}

func proven(t *testing.T) Report {
	t.Helper()
	f := facts(t)
	plant(t, f, goodState())
	r := Report{Faults: []FaultCount{{FaultPause, 2}}, Marks: []Mark{{FaultPause, 1, 3}}, DeadLettersLeft: 1}
	if err := f.Count(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	var err error
	if r.Invariants, err = f.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAProofHoldsOnlyIfFaultsHappenedAndInvariantsWereExaminedAndHold(t *testing.T) {
	good := proven(t)
	if bad := good.Failures(); bad != nil || !good.Settled() {
		t.Errorf("a good run fails: %v", bad)
	}
	for says, spoil := range map[string]func(*Report){
		"pause never happened":  func(r *Report) { r.Faults[0].Times = 0 },
		"I05 is violated 3":     func(r *Report) { r.Invariants[4].Violations = 3 },
		"1 dead letter open; 2": func(r *Report) { r.DeadLettersLeft = 2 },
		"1 dead letter open; 0": func(r *Report) { r.DeadLettersLeft = 0 },
		"only 5 invariants":     func(r *Report) { r.Invariants = r.Invariants[:5] },
	} {
		r := proven(t)
		spoil(&r)
		if bad := r.Failures(); !slices.ContainsFunc(bad, func(s string) bool { return strings.Contains(s, says) }) {
			t.Errorf("want %q, got %v", says, bad)
		}
		var out strings.Builder
		if err := r.Print(&out); err != nil || !strings.Contains(out.String(), "PROOF FAILS") {
			t.Errorf("%v, %s", err, out.String())
		}
	}
}

func TestTheReportsJSONHasTheFieldsThatScriptsRead(t *testing.T) {
	b, err := json.Marshal(proven(t))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	for path, fields := range map[string]string{
		"":                                    "began dead_letters_left dead_letters_open deliveries dir duration_seconds events faults invariants latency_seconds letters marks money orders orders_per_second seed",
		"orders":                              "accepted cancelled cancelled_for completed refused unsettled",
		"orders/cancelled_for":                "customer shipping stock time",
		"money":                               "captured completed net refunded",
		"letters/0":                           "class event_type id key reason service",
		"marks/0":                             "at name until",
		"events":                              "appended published published_again",
		"deliveries":                          "applied dead duplicate ignored received rejected retried",
		"latency_seconds":                     "commit_to_published order_to_completed",
		"latency_seconds/commit_to_published": "p50 p99",
		"latency_seconds/order_to_completed":  "p50 p99",
		"faults/0":                            "name times",
		"invariants/0":                        "checked id name violations",
	} {
		if names := fieldsAt(got, path); names != fields {
			t.Errorf("%q has %s; want %s", path, names, fields)
		}
	}
}

func fieldsAt(v any, path string) string {
	for step := range strings.SplitSeq(path, "/") {
		switch at := v.(type) {
		case map[string]any:
			if step != "" {
				v = at[step]
			}
		case []any:
			v = at[0]
		}
	}
	if l, ok := v.([]any); ok {
		v = l[0]
	}
	var names []string
	for name := range v.(map[string]any) {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestMoneyIsTextWithTwoDecimals(t *testing.T) {
	for c, text := range map[Cents]string{0: "0.00", 7: "0.07", 12345: "123.45", -5: "-0.05", math.MinInt64: "-92233720368547758.08", math.MaxInt64: "92233720368547758.07"} {
		b, err := json.Marshal(c)
		var back Cents
		if err != nil || string(b) != `"`+text+`"` || json.Unmarshal(b, &back) != nil || back != c {
			t.Errorf("%d is %s and %d again (%v)", int64(c), b, int64(back), err)
		}
	}
	for _, text := range []string{`""`, `"1"`, `"1.2"`, `"1.234"`, `"1.-2"`, `"+1.00"`, `"01.00"`, `"x.yz"`, `1.25`} {
		var c Cents
		if json.Unmarshal([]byte(text), &c) == nil {
			t.Errorf("%s is taken for %s", text, c)
		}
	}
}

func TestThePrintedProofNamesEveryInvariant(t *testing.T) {
	r := proven(t)
	var out strings.Builder
	if err := r.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, inv := range r.Invariants {
		if !strings.Contains(out.String(), inv.Name) {
			t.Errorf("%s is missing", inv.ID)
		}
	}
	for _, words := range []string{
		"Proof holds", "pause 2×", "7 accepted, 3 completed, 4 cancelled (customer 1, shipping 1, stock 1, time 1), 0 unsettled; 1 refused",
		"29.00 taken, 10.00 given back: 19.00 is left; the completed orders cost 19.00",
	} {
		if !strings.Contains(out.String(), words) {
			t.Errorf("%q is missing in\n%s", words, out.String())
		}
	}
}
