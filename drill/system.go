package drill

import (
	"context"
	"time"
)

// System is what a drill breaks: services, each with relay and consumer, the
// order service's entry, the outside systems that they call, and a broker.
type System struct {
	// Broker is started first and ended last.
	Broker *Child
	// Entry takes orders.
	Entry *Child
	// Services, the order service first, the inventory second.
	Services []Member
	// Outside systems, which are started before the services.
	Outside []*Child
	// StandIn returns a second process of the same role, not started yet.
	StandIn func(c *Child) *Child
	// Proxy is how every role reaches the broker.
	Proxy *Proxy
	// Tap reaches the broker without the proxy.
	Tap Tap
	// Topic is the topic of all events, Groups how many consumer groups read it.
	Topic  string
	Groups int
	// AckWitness is a text that only acknowledgements of published events hold.
	AckWitness string
	// LeaseTTL is the longest lease of relay and consumer.
	LeaseTTL time.Duration
	// Place asks the entry for an order; see Feed.
	Place func(ctx context.Context, r Request) (orderID string, err error)
	// State tells how far everything is.
	State func(ctx context.Context) (State, error)
	// Repair removes the cause of the poison and decides about all open dead
	// letters, with the commands a person would use. It may be repeated.
	Repair func(ctx context.Context) error
	// Export copies the facts of the services; nothing runs then.
	Export func(ctx context.Context, f *Facts) error
	// Counters returns what consumers counted and nothing durable tells.
	Counters func() (Counters, error)
}

// Member is one service's processes. Relay and Consumer may be one process
// that does both.
type Member struct {
	Name            string
	Relay, Consumer *Child
}

// Counters are sums over all processes there were, the killed ones included
// as far as they had written down what they counted.
type Counters struct{ Received, Duplicate, Ignored int64 }

// State is how far a system is, by its databases.
type State struct {
	Accepted  int64
	Completed int64
	Cancelled int64
	// Unpublished events have not reached the broker.
	Unpublished int64
	// Behind counts events that a consumer group has not dealt with.
	Behind int64
	// DeadOpen dead letters wait for a person, Replaying ones for the outcome of
	// a replay.
	DeadOpen, Replaying int64
}

// Open is how many orders are neither completed nor cancelled.
func (s State) Open() int64 { return s.Accepted - s.Completed - s.Cancelled }

// Settled reports whether nothing is left to do.
func (s State) Settled() bool {
	return s.Open() == 0 && s.Unpublished == 0 && s.Behind == 0 && s.DeadOpen == 0 && s.Replaying == 0
}

// Blocked reports whether nothing goes on without a person: what is open is
// explained by dead letters that nobody has decided about.
func (s State) Blocked() bool {
	return s.DeadOpen > 0 && s.Replaying == 0 && s.Open() <= s.DeadOpen && s.Unpublished == 0
}
