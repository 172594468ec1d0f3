// Package bridgetest is the contract of bridge.Broker and bridge.Source as a
// suite, and a broker in memory that keeps it. Each case is one sentence of the
// contract.
package bridgetest

import (
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
)

// Harness is one broker under test, with a topic and a group of one case alone.
type Harness struct {
	// Broker is the connection under test. The suite closes it.
	Broker bridge.Broker
	// Again opens another connection to the same broker, as another process
	// would. The suite closes it.
	Again func(t testing.TB) bridge.Broker
	// Ladder is that of the case; nothing of it is there yet. The suite declares
	// it before it uses what follows.
	Ladder bridge.Ladder
	// Publish sends a value to Ladder.Topic, to be received by the group and by
	// another one, with these headers.
	Publish func(t testing.TB, key string, value []byte, headers map[string]string)
	// GiveUp lets the group receive one message, from its topic, queue or retry
	// place, and give it up at once, as a Spring service does.
	GiveUp func(t testing.TB, f Failure)
	// Receive lets the group receive one message and be content with it;
	// ReceiveOther another group of the topic. They return false if there is
	// none for about a second.
	Receive, ReceiveOther func(t testing.TB) (settle.Record, bool)
	// Missing is a group whose dead-letter place does not exist.
	Missing bridge.Group
	// Patience is how long the suite waits for what has to happen. Defaults to
	// 30 s.
	Patience time.Duration
	// Without names the abilities below that this broker lacks; their cases are
	// skipped, loudly.
	Without []string
}

// Names of abilities for Harness.Without.
const (
	// AbilityCause: a letter tells of the exception.
	AbilityCause = "Cause"
	// AbilityAttempts: a letter tells how often it was tried.
	AbilityAttempts = "Attempts"
)

// Failure is how a group gives up.
type Failure struct {
	// Exception, Message and Trace are what its framework writes of the cause.
	Exception, Message, Trace string
}

// testCase is one sentence of the contract.
type testCase struct {
	name string
	run  func(b *bench)
}

// Run runs every case on a harness of its own. open is called once for each
// case and cleans up with t.Cleanup.
func Run(t *testing.T, open func(t testing.TB) Harness) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) { c.run(newBench(t, open(t))) })
	}
}

func cases() []testCase { return append(letterCases(), returnCases()...) }
