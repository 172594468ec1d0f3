// Package brokertest is the contract of settle.Broker as a suite. A broker
// that passes Run keeps every promise that the relay and the consumer rest on;
// each case is one sentence of the contract.
package brokertest

import (
	"slices"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// Harness is one broker under test, fresh for each case.
type Harness struct {
	// Broker is the connection under test. The suite closes it.
	Broker settle.Broker
	// Topic exists, is empty and is used by one case alone.
	Topic string
	// Again opens another connection to the same broker, as another process
	// would. The suite closes it.
	Again func(t testing.TB) settle.Broker
	// Log reads all of Topic back, in the broker's order of each partition, by
	// another way than Subscribe.
	Log func(t testing.TB) []settle.Record
	// AssignsPartitions says that the broker assigns partitions to members and
	// keeps their positions itself. Defaults to false: the suite leases them.
	AssignsPartitions bool
	// CountsPartitions says that each partition counts its own positions, so that an
	// idle one does not fall behind others and its floor need not rise. Defaults to
	// false: a topic counts the positions of all its partitions.
	CountsPartitions bool
	// Forgets says that the broker keeps no ids of messages: what is published
	// again after an unknown outcome may be a second copy. Defaults to false.
	Forgets bool
	// Introduce makes a group known to a broker that keeps records only for the
	// groups that are known when they are published. The suite introduces every
	// group of a case ahead, but for one that comes late: of it is asked that it
	// receives what is published from then on. Defaults to none: a group that
	// comes late reads from the earliest record.
	Introduce func(t testing.TB, group string)
	// Patience is how long the suite waits for what has to happen. Defaults to
	// 20 s.
	Patience time.Duration

	// Without names the abilities below that this harness lacks. Their cases
	// are skipped, loudly. An ability that is missing and not named here fails
	// its cases: a real broker has them all.
	Without []string

	// MissingTopic is a topic that does not exist.
	MissingTopic string
	// Foreign writes a record to Topic as a foreign producer would: any value,
	// any headers, no message id, to the partition of key.
	Foreign func(t testing.TB, key string, value []byte, headers map[string]string)
	// Restart kills the broker without warning and starts it again on what it
	// had written.
	Restart func(t testing.TB)
	// Lossy opens a connection whose answers can be lost: lose swallows the
	// broker's answers until one that acknowledges was swallowed, then cuts the
	// connection, and returns how many were; zero when none came.
	Lossy func(t testing.TB) (b settle.Broker, lose func() int)
	// Recreate deletes Topic and makes it anew.
	Recreate func(t testing.TB)
}

// Names of abilities for Harness.Without.
const (
	AbilityMissingTopic = "MissingTopic"
	AbilityForeign      = "Foreign"
	AbilityRestart      = "Restart"
	AbilityLossy        = "Lossy"
	AbilityRecreate     = "Recreate"
)

// Run runs every case on a harness of its own. open is called once for each
// case and cleans up with t.Cleanup.
func Run(t *testing.T, open func(t testing.TB) Harness) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, open) })
	}
}

// testCase is one sentence of the contract.
type testCase struct {
	name string
	// needs is the ability that the case can't do without.
	needs string
	// leased cases are about floors and leases, which a broker that assigns
	// partitions does not have.
	leased bool
	// counted cases are about positions that all partitions of a topic share.
	counted bool
	// groups read what was published before they join.
	groups []string
	test   func(t testing.TB, h Harness)
}

func (c testCase) run(t testing.TB, open func(t testing.TB) Harness) {
	t.Helper()
	h := open(t)
	if h.Patience <= 0 {
		h.Patience = 20 * time.Second
	}
	t.Cleanup(func() {
		if err := h.Broker.Close(); err != nil {
			t.Errorf("close broker: %v", err)
		}
	})
	if c.leased && h.AssignsPartitions {
		t.Skip("does not apply: this broker assigns partitions itself")
	}
	if c.counted && h.CountsPartitions {
		t.Skip("does not apply: each partition counts its own positions")
	}
	if c.needs != "" && !h.can(c.needs) {
		if !slices.Contains(h.Without, c.needs) {
			t.Fatalf("the harness lacks the ability %s and does not say so in Without", c.needs)
		}
		t.Skipf("NOT PROVED for this broker: the harness lacks the ability %s", c.needs)
	}
	if h.Introduce != nil {
		for _, group := range c.groups {
			h.Introduce(t, group)
		}
	}
	c.test(t, h)
}

func (h Harness) can(ability string) bool {
	switch ability {
	case AbilityMissingTopic:
		return h.MissingTopic != ""
	case AbilityForeign:
		return h.Foreign != nil
	case AbilityRestart:
		return h.Restart != nil
	case AbilityLossy:
		return h.Lossy != nil
	case AbilityRecreate:
		return h.Recreate != nil
	}
	return false
}

var cases = slices.Concat(publishCases, deliverCases, ownerCases, lifeCases)
