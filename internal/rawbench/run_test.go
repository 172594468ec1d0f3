package rawbench_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/settlemq/settle/broker/nats/embedded"
	"github.com/settlemq/settle/internal/rawbench"
)

func TestARunMeasuresEverythingItNames(t *testing.T) {
	report, err := rawbench.Run(t.Context(), rawbench.Config{Dir: t.TempDir(), Events: 2000})
	if err != nil {
		t.Fatal(err)
	}
	ratios := 0
	for _, f := range report.Figures {
		if f.Rate <= 0 || f.Events == 0 {
			t.Errorf("%s was not measured: %+v", f.Name, f)
		}
		if f.RatioTo != "" {
			ratios++
			if f.Ratio <= 0 {
				t.Errorf("%s has no ratio to %s", f.Name, f.RatioTo)
			}
		}
	}
	if ratios != 4 {
		t.Errorf("%d figures are compared with raw ones, want append twice, relay, consumer", ratios)
	}
	var table bytes.Buffer
	if err := report.Print(&table); err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Figures {
		if !strings.Contains(table.String(), f.Name) {
			t.Errorf("the table lacks %s", f.Name)
		}
	}
	t.Logf("\n%s", table.String())
}

// The heap after 200,000 events is that after 50,000, give or take what caches hold.
func TestMemoryStaysFlatOver200000Events(t *testing.T) {
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("SKIPPED: a long run; scripts/test all includes it")
	}
	server, err := embedded.Start(embedded.Config{Dir: filepath.Join(t.TempDir(), "broker")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	defer func() { stop(); <-ended }()
	var heaps [2]float64
	for i, events := range []int{50_000, 200_000} {
		took, heap, err := rawbench.EndToEnd(t.Context(), t.TempDir(), server.URL(), events)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d events in %v, heap %.1f MB", events, took, heap)
		heaps[i] = heap
	}
	if heaps[1] > heaps[0]+32 {
		t.Errorf("the heap grew from %.1f to %.1f MB", heaps[0], heaps[1])
	}
}
