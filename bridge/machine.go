package bridge

import (
	"errors"
	"time"

	"github.com/settlemq/settle"
)

// ordersAtOnce bounds the replays in hand.
const ordersAtOnce = 10

// Waits before something is tried again that has failed, doubled from first to
// last.
const (
	firstWait = 500 * time.Millisecond
	lastWait  = 15 * time.Second
)

// machine decides what a bridge does next. It has no clock and does no I/O.
type machine struct {
	ttl, lookEvery time.Duration
	retry          settle.RetryPolicy

	lease    Lease // Held: it leads
	asking   bool  // for the lease
	renewAt  time.Time
	reading  bool
	stopping bool      // reading is to end
	readAt   time.Time // when it began, or begins again
	readWait time.Duration
	looking  bool
	lookAt   time.Time
	orders   []Order
	sending  bool
	unmarked *Mark // of what was sent; to be recorded before anything else goes out
	marking  bool
	markAt   time.Time
	stats    Stats
	// wrong says of each kind of work why it fails; "" where it does not.
	wrong [works]string
}

// Kinds of work that may fail, the one that a person is told of first.
const (
	workKeep = iota
	workMark
	workLead
	workLook
	workRead
	workSend
	works
)

func newMachine(cfg Config) *machine {
	return &machine{ttl: cfg.LeaseTTL, lookEvery: cfg.LookEvery, retry: cfg.Retry, readWait: firstWait}
}

// step takes in what has happened and returns what to do.
func (m *machine) step(now time.Time, in input) []command {
	switch in := in.(type) {
	case led:
		m.led(now, in)
	case kept:
		m.kept(now, in)
	case ended:
		m.ended(now, in)
	case found:
		m.found(now, in)
	case sent:
		m.sent(now, in)
	case marked:
		m.marked(now, in)
	}
	if m.lease.Held && !now.Before(m.lease.Expires) {
		m.lose(now)
	}
	return m.decide(now)
}

// decide returns what is to be done now and is not under way.
func (m *machine) decide(now time.Time) (do []command) {
	if !m.asking && !now.Before(m.renewAt) {
		m.asking, m.renewAt = true, now
		do = append(do, leadNow{})
	}
	if m.reading && !m.stopping && !m.lease.Held {
		m.stopping = true
		do = append(do, stopReading{})
	}
	if !m.lease.Held {
		return do
	}
	if !m.reading && !now.Before(m.readAt) {
		m.reading, m.readAt = true, now
		do = append(do, readNow{m.lease})
	}
	if m.reading && now.Sub(m.readAt) > lastWait { // what can't be read says so at once
		m.readWait = firstWait
		m.tell(workRead, nil)
	}
	switch {
	case m.sending || m.marking:
	case m.unmarked != nil:
		if !now.Before(m.markAt) {
			m.marking = true
			do = append(do, markNow{m.lease, *m.unmarked})
		}
	case len(m.orders) > 0:
		m.sending = true
		do = append(do, sendNow{m.orders[0]})
		m.orders = m.orders[1:]
	case !m.looking && !now.Before(m.lookAt):
		m.looking = true
		do = append(do, lookNow{})
	}
	return do
}

// next is when time alone gives something to do.
func (m *machine) next() time.Time {
	at := m.renewAt
	earlier := func(is bool, t time.Time) {
		if is && t.Before(at) {
			at = t
		}
	}
	if m.asking { // the answer wakes
		at = at.Add(24 * time.Hour)
	}
	if !m.lease.Held {
		return at
	}
	earlier(true, m.lease.Expires)
	earlier(!m.reading, m.readAt)
	idle := !m.sending && !m.marking
	earlier(idle && m.unmarked != nil, m.markAt)
	earlier(idle && m.unmarked == nil && !m.looking, m.lookAt)
	return at
}

func (m *machine) led(now time.Time, in led) {
	m.asking = false
	m.renewAt = now.Add(m.ttl / 3)
	m.tell(workLead, in.err)
	if in.err != nil {
		m.renewAt = now.Add(min(m.ttl/10, time.Second))
		return
	}
	if m.lease.Held && (!in.lease.Held || in.lease.Epoch != m.lease.Epoch) {
		m.lose(now)
	}
	if m.lease = in.lease; m.lease.Held {
		m.stats.Leading = true
	}
}

// lose forgets all that another owner may do now.
func (m *machine) lose(now time.Time) {
	m.lease, m.orders, m.unmarked, m.stats.Leading = Lease{}, nil, nil, false
	if !m.asking {
		m.renewAt = now.Add(m.ttl / 10)
	}
	m.lookAt, m.readAt = now, now
	m.wrong = [works]string{workLead: m.wrong[workLead]}
	m.tell(workKeep, nil)
}

func (m *machine) kept(now time.Time, in kept) {
	if in.err == nil {
		m.stats.Kept += int64(in.fresh)
		m.stats.Again += int64(in.letters - in.fresh)
		m.readWait = firstWait
		m.tell(workRead, nil)
	}
	if m.tell(workKeep, in.err); errors.Is(in.err, settle.ErrFenced) {
		m.lose(now)
	}
}

func (m *machine) ended(now time.Time, in ended) {
	m.reading, m.stopping = false, false
	m.readAt = now.Add(m.readWait)
	if in.err == nil {
		m.readAt = now
		return
	}
	m.readWait = min(2*m.readWait, lastWait)
	m.tell(workRead, in.err)
}

func (m *machine) found(now time.Time, in found) {
	m.looking = false
	m.lookAt = now.Add(m.lookEvery)
	m.tell(workLook, in.err)
	if m.lease.Held && in.err == nil {
		m.orders = in.ordered.Orders
	}
}

// sent decides what an answer of the broker means for the order.
func (m *machine) sent(now time.Time, in sent) {
	m.sending = false
	if !m.lease.Held {
		return
	}
	mark := Mark{ID: in.order.ID, Tries: in.order.Tries + 1}
	scope := settle.ScopeOf(in.err)
	m.tell(workSend, nil)
	switch wait, again := m.retry.Next(in.order.Return.ID, mark.Tries, in.err); {
	case in.err == nil:
	case scope == settle.ScopeRecord || settle.IsPermanent(in.err):
		mark.Result, mark.Cause = ResultGivenUp, in.err.Error()
	case !again && scope == settle.ScopeBroker:
		mark.Result, mark.Cause = ResultGivenUp, "the broker has not answered, so its consumer may have received it: "+in.err.Error()
	case !again:
		mark.Result, mark.Cause = ResultGivenUp, in.err.Error()
	default:
		mark.Result, mark.NextAt, mark.Cause = ResultAgain, now.Add(wait), in.err.Error()
		if scope == settle.ScopeBroker {
			// It answers nobody: the others are not tried before it does.
			m.orders, m.lookAt = nil, now.Add(min(wait, lastWait))
			m.tell(workSend, in.err)
		}
	}
	m.unmarked, m.markAt = &mark, now
}

func (m *machine) marked(now time.Time, in marked) {
	m.marking = false
	switch {
	case errors.Is(in.err, settle.ErrFenced):
		m.lose(now)
	case in.err != nil:
		m.tell(workMark, in.err)
		m.markAt = now.Add(firstWait)
	default:
		m.tell(workMark, nil)
		m.unmarked = nil
		switch in.mark.Result {
		case ResultReturned:
			m.stats.Returned++
		case ResultGivenUp:
			m.stats.GivenUp++
		case ResultAgain:
		}
		if len(m.orders) == 0 && in.mark.Result != ResultAgain {
			m.lookAt = now // there may be more
		}
	}
}

// tell notes how some work has gone, and what is the trouble now.
func (m *machine) tell(work int, err error) {
	m.wrong[work] = ""
	if err != nil {
		m.wrong[work] = err.Error()
	}
	m.stats.Trouble, m.stats.Cause = "", ""
	for work, cause := range m.wrong {
		if cause == "" {
			continue
		}
		m.stats.Trouble, m.stats.Cause = TroubleStore, cause
		if work == workRead || work == workSend {
			m.stats.Trouble = TroubleSource
		}
		return
	}
}
