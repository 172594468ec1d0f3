package rawbench_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
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

const envBroker = "SETTLE_TEST_BROKER" // the directory of the broker that this process is

// TestMain lets the test binary be a broker, told to end by the end of its input.
func TestMain(m *testing.M) {
	dir := os.Getenv(envBroker)
	if dir == "" {
		os.Exit(m.Run())
	}
	server, err := embedded.Start(embedded.Config{Dir: dir})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(server.URL())
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = server.Close()
}

// The broker is another process: it keeps the ids of two minutes and its last
// blocks in memory, which is none of what producer, relay and consumer keep.
func TestMemoryStaysFlatOver200000Events(t *testing.T) {
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("SKIPPED: a long run; scripts/test all includes it")
	}
	broker := exec.Command(os.Args[0])
	broker.Env = append(os.Environ(), envBroker+"="+t.TempDir())
	input, err := broker.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := broker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = input.Close(); _ = broker.Wait() }()
	url, err := bufio.NewReader(output).ReadString('\n')
	if err != nil || !strings.HasPrefix(url, "nats://") {
		t.Fatalf("the broker says %q, %v", url, err)
	}
	var heaps [2]float64
	for i, events := range []int{20_000, 200_000} {
		took, heap, err := rawbench.EndToEnd(t.Context(), t.TempDir(), strings.TrimSpace(url), events)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d events in %v, highest live heap %.1f MB", events, took, heap)
		heaps[i] = heap
	}
	if heaps[1] > heaps[0]+16 {
		t.Errorf("ten times the events and the heap grew from %.1f to %.1f MB", heaps[0], heaps[1])
	}
}
