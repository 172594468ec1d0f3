package drill

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestNumbersOfAReportComeFromTheFacts(t *testing.T) {
	f := facts(t)
	plant(t, f, goodState)
	plant(t, f, "UPDATE inbox SET attempts=4 WHERE event_id='e5'; UPDATE inbox SET status='REJECTED' WHERE event_id='e2'; UPDATE orders SET status='CREATED' WHERE order_id='o3'; UPDATE outbox SET status='PENDING' WHERE event_id='e9'; UPDATE dead_letter SET state='OPEN' WHERE id=2")
	plant(t, f, "INSERT INTO broker_log VALUES('t',3,20,'e7','order','o1',2,'h7'),('t',3,21,'e7','order','o1',2,'h7')")
	var r Report
	if err := f.Count(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	want := Report{
		Orders:          OrderCounts{Accepted: 3, Completed: 1, Cancelled: 1, Unsettled: 1},
		Events:          EventCounts{Appended: 9, Published: 8, PublishedAgain: 2},
		Deliveries:      DeliveryCounts{Applied: 6, Rejected: 1, Retried: 6, Dead: 2},
		DeadLettersOpen: 1,
		Latency:         Latencies{CommitToPublished: Quantiles{1e-6, 1e-6}, OrderToCompleted: Quantiles{4e-6, 4e-6}},
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
	plant(t, f, goodState)
	r := Report{Faults: []FaultCount{{FaultPause, 2}}}
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
		"pause never happened": func(r *Report) { r.Faults[0].Times = 0 },
		"I05 is violated 3":    func(r *Report) { r.Invariants[4].Violations = 3 },
		"only 5 invariants":    func(r *Report) { r.Invariants = r.Invariants[:5] },
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
		"":                                    "dead_letters_open deliveries dir duration_seconds events faults invariants latency_seconds orders orders_per_second seed",
		"orders":                              "accepted cancelled completed unsettled",
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
	if !strings.Contains(out.String(), "Proof holds") || !strings.Contains(out.String(), "pause 2×") {
		t.Error(out.String())
	}
}
