package sim

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Swarm is how one seed's world is set up: each seed enables a random part of
// the faults and random small sizes, so that every mixture comes up some time.
type Swarm struct {
	// Producers.
	Keys, Topics, Partitions int
	Transactions             int
	Pooled                   float64 // part of the transactions that take ids of a pool
	Rollback                 float64
	LongHold                 float64 // part that stays open for seconds
	Async                    float64 // part that commits without waiting for the disk
	Delayed                  float64 // part of the events with NotBefore
	Counted                  bool    // events carry aggregateSeq
	OwnersKnown              bool
	KeyInTwoTopics           bool

	// Fates of events.
	Refused, Flaky, Poison, Defective, Killer float64
	Rejected, Permanent, Panics, Foreign      float64

	// Broker.
	AtomicBatches   bool
	PartialBatch    float64
	LostAck         float64
	LostPublish     float64
	LatePublish     float64
	DuplicateWindow time.Duration
	TopicBreaks     bool
	BrokerStops     bool
	SlowTopic       bool
	// Routed: there is a second broker, and routes lead to it that are changed so
	// often; a relay has those of the time when it began.
	Routed       bool
	Fanned       bool // to both brokers
	RouteChanges int

	// Stores and network.
	LostCall, LostAnswer float64
	LateCall             float64 // done after the caller has given up
	LostCommit           float64 // a transaction fails when it commits
	StoreCuts            bool
	DatabaseCrashes      bool
	ClockJumps           bool
	CallTime             time.Duration

	// InnoDB: the databases do as MySQL and MariaDB, else as PostgreSQL. With
	// BinaryLog a commit is on the disk before it is seen. OwnersKnown is the right
	// to see the statements of others.
	InnoDB, BinaryLog bool
	Bulk              float64 // part of the transactions that insert from a SELECT
	LockWaits         float64 // part of the statements that wait for a lock, half of them in vain
	Deadlocks         float64

	// Processes.
	Relays    int
	Crash     float64 // chance at each command
	Pauses    bool
	Suspends  bool // pauses that the process's own clock does not see
	Stops     bool // clean ends
	Operators bool
	// LaneChanges is how often the number of the relay's lanes is changed.
	LaneChanges int

	// Relay.
	LeaseTTL     time.Duration
	BatchRows    int
	BatchBytes   int
	RelayPass    bool
	KeepFor      time.Duration
	DelayAhead   time.Duration
	RelayRetries int
	RateLimit    float64
	Doorbell     bool

	Groups []groupSetup

	// Shop. Transactions is how many orders there are.
	Articles, Stock                        int
	PaysLater, Cancels, HighRisk, Stuck    float64
	Declined, Free                         float64
	PaymentWindow, ReviewAfter             time.Duration
	OutsideLost, OutsideHangs, OutsideAway float64
	Outages                                bool

	// Phase is where the run is; it is no option.
	Phase phase `swarm:"-"`
}

// groupSetup is how one consumer group works.
type groupSetup struct {
	Name         string
	Members      int
	Owned        bool // partitions are leased from our store, else the broker assigns
	PerItem      bool // the store has a transaction for each item
	Concurrency  int
	BatchRows    int
	Pass         bool
	OrderedBySeq bool
	GapTimeout   time.Duration
	Retries      int
	DedupWindow  time.Duration
	EffectKeys   bool
	Batch        bool
	External     bool
	IgnoreSome   bool
	Unavailable  bool
	LeftOvers    float64
	Rewinds      bool // the broker forgets acknowledgements
	RateLimit    float64
}

type phase int

const (
	phaseFaults phase = iota
	phaseCalm
)

// some returns v with probability p, else 0.
func (d dice) some(p, v float64) float64 {
	if d.chance(p) {
		return v
	}
	return 0
}

func (d dice) pick(of ...time.Duration) time.Duration { return of[d.IntN(len(of))] }

func newSwarm(d dice) Swarm {
	s := Swarm{
		Keys: d.from(1, 5), Topics: d.from(1, 3), Partitions: d.from(1, 3), Transactions: d.from(8, 40),
		Pooled: d.some(0.2, 0.2), Rollback: d.some(0.7, 0.3), LongHold: d.some(0.5, 0.15), Async: d.some(0.3, 0.5),
		Delayed: d.some(0.3, 0.2), Counted: d.chance(0.4), OwnersKnown: d.chance(0.8), KeyInTwoTopics: d.chance(0.2),

		Refused: d.some(0.4, 0.1), Flaky: d.some(0.5, 0.2), Poison: d.some(0.4, 0.08), Defective: d.some(0.15, 0.05),
		Killer: d.some(0.15, 0.04), Rejected: d.some(0.3, 0.1), Permanent: d.some(0.3, 0.06), Panics: d.some(0.2, 0.1), Foreign: d.some(0.2, 0.1),

		AtomicBatches: d.chance(0.5), PartialBatch: d.some(0.4, 0.05), LostAck: d.some(0.5, 0.1), LostPublish: d.some(0.4, 0.1),
		LatePublish: d.some(0.3, 0.05), DuplicateWindow: d.pick(0, 200*time.Millisecond, time.Second, time.Minute),
		TopicBreaks: d.chance(0.3), BrokerStops: d.chance(0.3), SlowTopic: d.chance(0.3),

		LostCall: d.some(0.4, 0.02), LostAnswer: d.some(0.4, 0.03), LateCall: d.some(0.3, 0.02), StoreCuts: d.chance(0.3), DatabaseCrashes: d.chance(0.25),
		ClockJumps: d.chance(0.25), CallTime: d.pick(200*time.Microsecond, 2*time.Millisecond, 20*time.Millisecond),

		Relays: d.from(1, 3), Crash: d.some(0.6, 0.004), Pauses: d.chance(0.4), Suspends: d.chance(0.25), Stops: d.chance(0.3), Operators: d.chance(0.5),

		LeaseTTL: d.pick(500*time.Millisecond, time.Second, 3*time.Second), BatchRows: d.from(1, 12), BatchBytes: 512 << d.IntN(5),
		RelayPass: d.chance(0.2), KeepFor: d.pick(0, 0, 500*time.Millisecond, 2*time.Second), DelayAhead: 200 * time.Millisecond,
		RelayRetries: d.from(2, 5), RateLimit: d.some(0.1, 30), Doorbell: d.chance(0.5),
	}
	if s.Counted {
		s.Delayed = 0
	}
	if s.Async > 0 {
		s.DatabaseCrashes = d.chance(0.7)
	}
	if d.chance(0.35) {
		s.LaneChanges = d.from(1, 4)
	}
	if d.chance(0.1) { // many events of few keys
		s.Keys, s.Transactions, s.LongHold = d.from(1, 2), d.from(80, 160), 0
	}
	if d.chance(0.35) {
		s.InnoDB, s.BinaryLog = true, d.chance(0.5)
		s.Bulk, s.LockWaits, s.Deadlocks = d.some(0.7, 0.3), d.some(0.6, 0.1), d.some(0.5, 0.02)
		s.OwnersKnown, s.DatabaseCrashes = d.chance(0.6), d.chance(0.5)
		if s.BinaryLog {
			s.Async = 0
		}
	}
	for i := range d.from(1, 2) {
		s.Groups = append(s.Groups, newGroup(d, i, s.Counted))
	}
	return s
}

// withRoutes adds a second broker. A key's events may go to both, so no group
// goes by the producer's count.
func (s *Swarm) withRoutes(d dice) {
	s.Routed, s.RouteChanges, s.BrokerStops = true, d.from(0, 3), d.chance(0.7)
	s.Counted = false
	for i := range s.Groups {
		s.Groups[i].OrderedBySeq = false
	}
}

func newGroup(d dice, i int, counted bool) groupSetup {
	g := groupSetup{
		Name: "group-" + string(rune('a'+i)), Members: d.from(1, 3), Owned: d.chance(0.6), PerItem: d.chance(0.3),
		Concurrency: d.from(1, 3), BatchRows: d.from(1, 8), Pass: d.chance(0.2),
		OrderedBySeq: counted && d.chance(0.5), GapTimeout: d.pick(300*time.Millisecond, 2*time.Second),
		Retries: d.from(2, 4), DedupWindow: d.pick(0, 0, 0, time.Second, 4*time.Second), EffectKeys: d.chance(0.15),
		Batch: d.chance(0.15), External: d.chance(0.15), IgnoreSome: d.chance(0.3), Unavailable: d.chance(0.3),
		LeftOvers: d.some(0.15, 0.1), RateLimit: d.some(0.1, 30),
	}
	g.Rewinds = !g.Owned && d.chance(0.4)
	return g
}

// String prints the whole option set, zero values left out.
func (s Swarm) String() string {
	var b strings.Builder
	describe(&b, reflect.ValueOf(s))
	return b.String()
}

func describe(b *strings.Builder, v reflect.Value) {
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i)
		switch {
		case f.IsZero() || name.Tag.Get("swarm") == "-":
		case name.Name == "Groups":
			for j := range f.Len() {
				b.WriteString("\n  group:")
				describe(b, f.Index(j))
			}
		default:
			fmt.Fprintf(b, " %s=%v", name.Name, f.Interface())
		}
	}
}
