package memory_test

import (
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/brokertest"
	"github.com/settlemq/settle/broker/memory"
)

func TestTheMemoryBrokerKeepsTheContractWithLeases(t *testing.T) {
	brokertest.Run(t, func(t testing.TB) brokertest.Harness { return harness(t, false) })
}

func TestTheMemoryBrokerKeepsTheContractWhenItAssignsPartitions(t *testing.T) {
	brokertest.Run(t, func(t testing.TB) brokertest.Harness { return harness(t, true) })
}

func harness(t testing.TB, assigns bool) brokertest.Harness {
	const topic = "suite"
	b := memory.New(memory.Config{Topics: []string{topic}})
	return brokertest.Harness{
		Broker: b, Topic: topic, MissingTopic: "missing", AssignsPartitions: assigns,
		Again: func(testing.TB) settle.Broker { return b.Connect() },
		Log:   func(testing.TB) []settle.Record { return b.Log(topic) },
		Foreign: func(t testing.TB, key string, value []byte, headers map[string]string) {
			if err := b.PublishRaw(topic, key, value, headers); err != nil {
				t.Fatal(err)
			}
		},
		Recreate: func(testing.TB) { b.Recreate(topic) },
		// It lives and dies with its process, and nothing is between.
		Without: []string{brokertest.AbilityRestart, brokertest.AbilityLossy},
	}
}
