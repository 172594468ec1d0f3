package main

import (
	"fmt"
	"time"
)

// report is what one run has shown, as --json writes it, or several.
type report struct {
	Parts   []part       `json:"databases"`
	Brokers []brokerPart `json:"brokers"`
}

// run says when and how a part was measured.
type run struct {
	Date    time.Time `json:"date"`
	Command string    `json:"command"`
	Machine machine   `json:"machine"`
	Events  int       `json:"events"`
	Rounds  int       `json:"rounds"`
	Rate    int       `json:"steady_events_per_second"`
	// Took is its time in seconds.
	Took float64 `json:"seconds"`
	// Interrupted: it was ended before all rounds were done.
	Interrupted bool `json:"interrupted,omitempty"`
}

// told is where and how it was measured.
func (r run) told() string {
	m := r.Machine
	s := fmt.Sprintf("%s · %d CPUs, %s, %.0f GB, %s, %s · %s events of %d bytes, %s keys, rounds: %d, %.0f s", r.Date.Format("2006-01-02 15:04 MST"), m.CPUs, m.CPU, m.MemoryGB, m.System, m.Go,
		count(float64(r.Events)), payloadBytes, count(keys), r.Rounds, r.Took)
	if r.Interrupted {
		s += " · INTERRUPTED: medians of the rounds that were done"
	}
	return s
}

// part is what was measured on one database.
type part struct {
	Run       run           `json:"run"`
	Database  database      `json:"database"`
	Relays    []relayRow    `json:"relays"`
	Consumers []consumerRow `json:"consumers"`
	Producers []producerRow `json:"producers"`
	Goals     []goal        `json:"goals"`
}

// machine says what the figures were measured on.
type machine struct {
	CPU      string  `json:"cpu"`
	CPUs     int     `json:"cpus"`
	MemoryGB float64 `json:"memory_gb"`
	System   string  `json:"system"`
	Go       string  `json:"go"`
}

// database says what a part was measured on.
type database struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Durable are the settings that say when a commit is.
	Durable string `json:"durable"`
	// CommitMS is the median of an own commit in ms.
	CommitMS float64 `json:"commit_ms"`
	// OtherSessions were connected to the server when the run began.
	OtherSessions int `json:"other_sessions"`
}

// relayRow is what was measured of one contender.
type relayRow struct {
	Name   string `json:"name"`
	Title  string `json:"title"`
	Events int    `json:"events"`
	// Rate is events per second from a backlog that was stored one event a
	// transaction, Batched from one that was stored 100 a transaction.
	Rate       float64 `json:"events_per_second"`
	RatioToRaw float64 `json:"ratio_to_raw"`
	// LeanRatio is how many times as fast Settle's lean relay is. Ratios are
	// medians of those of single rounds.
	LeanRatio float64 `json:"lean_is_times_as_fast"`
	Batched   float64 `json:"batched_events_per_second"`
	RelayCPU  float64 `json:"relay_cpu_seconds_per_million"`
	ServerCPU float64 `json:"server_cpu_seconds_per_million"`
	// Log is bytes of the server's logs; OldEvents and Old are row versions left
	// behind, below 0 where the server does not tell.
	Log       float64 `json:"log_bytes_per_event"`
	OldEvents float64 `json:"old_event_rows_per_event"`
	Old       float64 `json:"old_rows_per_event"`
	// Steady state: from commit to publish, in ms.
	P50        float64 `json:"p50_ms"`
	P99        float64 `json:"p99_ms"`
	P999       float64 `json:"p999_ms"`
	SteadyLost int     `json:"steady_lost"`
	// Twice is how many events were published again after a SIGKILL.
	Killed   bool      `json:"killed"`
	Twice    int       `json:"sent_twice_after_sigkill"`
	Poisoned figure    `json:"poisoned_key"`
	Idle     figure    `json:"idle_write_transaction"`
	Snapshot figure    `json:"snapshot_held"`
	Large    figure    `json:"large_rows"`
	Beside   besideRow `json:"producers_beside"`
}

// besideRow is what producers do while the relay reads, and without it.
type besideRow struct {
	Measured   bool    `json:"measured"`
	Rate       float64 `json:"transactions_per_second"`
	Without    float64 `json:"without_transactions_per_second"`
	Ratio      float64 `json:"ratio_to_without"`
	P50        float64 `json:"p50_ms"`
	P99        float64 `json:"p99_ms"`
	P99Without float64 `json:"without_p99_ms"`
	// Vain is how many transactions had to be done again; Carried which part of
	// what was stored the relay had published at once.
	Vain    int     `json:"done_again"`
	Lost    int     `json:"lost"`
	Carried float64 `json:"published_meanwhile"`
}

// figure is a rate in a scene. Ratio compares it with the contender's own rate
// without what is wrong.
type figure struct {
	Measured bool    `json:"measured"`
	Rate     float64 `json:"events_per_second"`
	Ratio    float64 `json:"ratio,omitempty"`
	// Stopped: it made no progress any more when so large a part was Carried.
	Stopped   bool    `json:"stopped,omitempty"`
	Carried   float64 `json:"carried,omitempty"`
	Lost      int     `json:"lost,omitempty"`
	OldEvents float64 `json:"old_event_rows_per_event,omitempty"`
	MemoryMB  float64 `json:"memory_mb,omitempty"`
}

// consumerRow is what was measured of one applier; Slow is with a delay added to
// each commit.
type consumerRow struct {
	Name       string  `json:"name"`
	Title      string  `json:"title"`
	Rate       float64 `json:"events_per_second"`
	RatioToRaw float64 `json:"ratio_to_raw"`
	Slow       float64 `json:"slow_commit_events_per_second"`
	// RatioToSingle compares with one transaction per message, slow commits.
	RatioToSingle float64 `json:"slow_commit_ratio_to_single"`
	Wrong         int     `json:"wrong_effects"`
	Twice         int     `json:"applied_twice_after_restart"`
}

// producerRow is what a business transaction costs with and without an outbox;
// Slow is with a delay added to each commit.
type producerRow struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Than names the one without an outbox that the ratios compare it with.
	Than      string  `json:"than"`
	Rate      float64 `json:"transactions_per_second"`
	Ratio     float64 `json:"ratio_to_none"`
	Slow      float64 `json:"slow_commit_transactions_per_second"`
	SlowRatio float64 `json:"slow_commit_ratio_to_none"`
}

func (p *part) relay(name string) (relayRow, bool) {
	for _, row := range p.Relays {
		if row.Name == name && row.Rate > 0 {
			return row, true
		}
	}
	return relayRow{}, false
}

func (p *part) consumer(name string) (consumerRow, bool) {
	for _, row := range p.Consumers {
		if row.Name == name && row.Rate > 0 {
			return row, true
		}
	}
	return consumerRow{}, false
}
