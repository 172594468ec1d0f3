package drill

import (
	"context"
	"time"
)

// System is what a drill breaks: services, each with relay and consumer, the
// order service's entry, the outside systems that they call, and a broker.
type System struct {
	// Broker is started first and ended last. Nil: it is not ours, and runs.
	Broker *Child
	// Entry takes orders.
	Entry *Child
	// Services, the order service first, the inventory second.
	Services []Member
	// Outside systems, each named as in Provider, Coupons and Carrier. They are
	// started before the services.
	Outside []*Child
	// StandIn returns a second process of the same role, not started yet.
	StandIn func(c *Child) *Child
	// Proxy is how every role reaches the broker.
	Proxy *Proxy
	// Tap reaches the broker without the proxy.
	Tap Tap
	// Unplaced is set where what a publisher is told says no place in the log.
	Unplaced bool
	// Cluster breaks the broker's nodes. Nil: it has one, or none that can be
	// broken, and no fault of nodes is asked for.
	Cluster Cluster
	// Topic is the topic of all events, Groups how many consumer groups read it.
	Topic  string
	Groups int
	// LeaseTTL is the longest lease of relay and consumer.
	LeaseTTL time.Duration
	// Place asks the entry for an order; see Feed.
	Place func(ctx context.Context, r Request) (orderID string, err error)
	// Act asks the entry for what a customer wants done; see Feed.
	Act func(ctx context.Context, kind, orderID string) (accepted bool, err error)
	// Misbehave makes an outside system do one thing wrong instead of whatever
	// it did wrong before. Misbehaved returns how often each mode really
	// happened since its process began.
	Misbehave  func(ctx context.Context, system string, m Misbehaviour) error
	Misbehaved func(ctx context.Context, system string) (map[string]int64, error)
	// State tells how far everything is; see Watch.
	State func(ctx context.Context) (State, error)
	// Letters returns the dead letters that wait for a person.
	Letters func(ctx context.Context) ([]Letter, error)
	// Repair removes the cause of the poison and decides about these dead
	// letters and no others, with the commands a person would use. It may be
	// called several times.
	Repair func(ctx context.Context, letters []Letter) error
	// Export copies the facts of the services; nothing runs then.
	Export func(ctx context.Context, f *Facts) error
	// Counters returns what consumers counted and nothing durable tells.
	Counters func() (Counters, error)
}

// Names of outside systems.
const (
	Provider = "provider" // of payments
	Coupons  = "coupons"
	Carrier  = "carrier"
)

// Member is one service's processes. Relay and Consumer may be one process
// that does both.
type Member struct {
	Name            string
	Relay, Consumer *Child
}

// Counters are sums over all processes there were, the killed ones included
// as far as they had written down what they counted.
type Counters struct{ Received, Duplicate, Ignored int64 }
