package rocketmq_test

import (
	"os"
	"testing"

	"github.com/settlemq/settle/broker/brokertest"
	"github.com/settlemq/settle/internal/services"
)

// onlyWhenAll skips what takes minutes.
func onlyWhenAll(t *testing.T) {
	t.Helper()
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("SETTLE_TEST_ALL is not set")
	}
}

func TestRocketMQKeepsTheContractThroughKills(t *testing.T) {
	onlyWhenAll(t)
	server := services.Up(t, []string{"rocketmq"})[0]
	brokertest.Run(t, func(t testing.TB) brokertest.Harness {
		h := newRig(t, server.URL()).harness(t)
		h.Restart = func(t testing.TB) {
			t.Helper()
			server.Part("a").Kill()
			server.Part("a").Start()
		}
		return h
	})
}
