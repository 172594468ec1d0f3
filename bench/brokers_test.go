package main

import (
	"context"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEveryWayCarriesAllEventsOnEveryBroker runs the whole bench with a few
// events: what it checks itself is that all arrived.
func TestEveryWayCarriesAllEventsOnEveryBroker(t *testing.T) {
	for _, to := range targets() {
		t.Run(to.name, func(t *testing.T) {
			for _, env := range []string{to.env, "SETTLE_TEST_POSTGRES"} {
				if os.Getenv(env) != "" {
					continue
				}
				if os.Getenv("CI") != "" {
					t.Fatalf("%s is not set: export it with the URL that `scripts/services up` prints", env)
				}
				t.Skipf("SKIPPED, NOTHING OF THIS IS PROVED: %s is not set; `scripts/services up` prints its value", env)
			}
			var said strings.Builder
			cfg, err := parse([]string{"--broker", to.name, "--events", "1000", "--rounds", "1", "--seconds", "1"}, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			r, err := measure(context.Background(), cfg, "test", &said)
			if err != nil {
				t.Fatalf("%v\n%s", err, said.String())
			}
			p := r.Brokers[0]
			if len(p.Publish) != len(to.publishers) || len(p.Hot) != len(to.hot) || len(p.Read) != len(to.readers) || len(p.Drain) != len(to.carriers) {
				t.Errorf("rows are missing: %+v", p)
			}
			for _, row := range append(append(p.Publish, p.Hot...), p.Read...) {
				if row.Rate <= 0 || row.Ratio <= 0 || row.CPU <= 0 || row.Twice > 0 || row.Disorder > 0 {
					t.Errorf("%+v", row)
				}
			}
			for _, row := range p.Drain {
				if row.Rate <= 0 || row.Many <= 0 || row.Lost > 0 && !strings.HasSuffix(row.Name, rawName) {
					t.Errorf("%+v", row)
				}
			}
			if !regexp.MustCompile(`about \d+`).MatchString(said.String()) {
				t.Errorf("nothing says how long it will take:\n%s", said.String())
			}
		})
	}
}
