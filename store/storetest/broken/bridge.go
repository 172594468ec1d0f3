package broken

import (
	"context"
	"math"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/storetest"
)

type bridgeStore = storetest.BridgeStore

// RunBridge gives each rule of the bridges' suite a store that breaks it. open
// returns a sound, empty store for each.
func RunBridge(t *testing.T, open func(t testing.TB) storetest.BridgeStore) {
	stores := brokenBridges()
	for _, c := range storetest.BridgeCases() {
		breaks, ok := stores[c.Name]
		delete(stores, c.Name)
		run(t, c.Name, ok, func(t testing.TB) func(testing.TB) {
			s := breaks(open(t))
			return func(t testing.TB) { c.Run(t, s) }
		})
	}
	for name := range stores {
		t.Errorf("there is no rule %q to break", name)
	}
}

func brokenBridges() map[string]func(bridgeStore) bridgeStore {
	letters := func(change func(*bridge.Letter)) func(bridgeStore) bridgeStore {
		return bridges(func(b *brokenBridge) { b.letter = change })
	}
	orders := func(change func(*bridge.Order)) func(bridgeStore) bridgeStore {
		return bridges(func(b *brokenBridge) { b.order = change })
	}
	var renamed atomic.Int64
	return map[string]func(bridgeStore) bridgeStore{
		"a letter is kept once, however often it comes": letters(func(l *bridge.Letter) {
			l.Identity += strconv.FormatInt(renamed.Add(1), 10)
		}),
		"of a batch that can't be kept nothing is kept":                                                    bridges(func(b *brokenBridge) { b.single = true }),
		"a kept letter tells all that its source has told":                                                 letters(func(l *bridge.Letter) { l.Trace = "" }),
		"bytes, key, headers and what the adapter needs go back as they came, whatever they are":           orders(func(o *bridge.Order) { o.Return.Letter.Record.Headers["\xfename"] = "\uFFFD" }),
		"only who holds the lease keeps and marks":                                                         bridges(func(b *brokenBridge) { b.unfenced = true }),
		"a lease goes to another when it has run out or was given back, under a higher epoch":              bridges(func(b *brokenBridge) { b.sameEpoch = true }),
		"a lease from before the clock was set back does not last":                                         func(s bridgeStore) bridgeStore { s.Advance = func(time.Duration) {}; return s },
		"groups are led each by itself, and an identity is one group's":                                    bridges(func(b *brokenBridge) { b.oneGroup = true }),
		"a replay is handed out under one id until it is marked, and then closed by who asked":             orders(func(o *bridge.Order) { o.Return.ID += strconv.FormatInt(renamed.Add(1), 10) }),
		"a replay that is put off is due at its time, and one that is given up is open again and says why": bridges(func(b *brokenBridge) { b.mark = func(m *bridge.Mark) { m.NextAt = time.Time{} } }),
		"a replay goes where it can go, or is refused with what can be had":                                letters(func(l *bridge.Letter) { l.To = []bridge.Target{govern.ToGroup, govern.ToOrigin} }),
		"what can't be understood can go back":                                                             letters(func(l *bridge.Letter) { l.To = nil }),
		"a letter is kept also when it tells of times and counts that no column holds": letters(func(l *bridge.Letter) {
			if l.Attempts > math.MaxInt32 {
				l.Identity = ""
			}
		}),
		"what was discarded is not handed out, and a discard needs a reason":               abroad(func(b *brokenGovernance) { b.discard = b.replayed }),
		"a compensation is refused: the consumer is not ours":                              abroad(func(b *brokenGovernance) { b.compensate = b.replayed }),
		"what dies again after a replay names the letter before, by return id or by event": letters(func(l *bridge.Letter) { l.ReturnID = ""; l.Record.Event.ID += l.Identity }),
		"a trail tells where and when it died, who acted, and each once":                   letters(func(l *bridge.Letter) { l.DiedAt = l.DiedAt.Add(time.Hour) }),
		"letters of other consumers are found as all are, and say that they are not ours":  letters(func(l *bridge.Letter) { l.Record.Event.BizKey = "" }),
	}
}

func bridges(change func(b *brokenBridge)) func(bridgeStore) bridgeStore {
	return func(s bridgeStore) bridgeStore {
		b := &brokenBridge{Store: s.Bridge}
		change(b)
		s.Bridge = b
		return s
	}
}

func abroad(change func(b *brokenGovernance)) func(bridgeStore) bridgeStore {
	return func(s bridgeStore) bridgeStore {
		b := brokenGovernance{Store: s.Governance}
		change(&b)
		s.Governance = b
		return s
	}
}

// replayed replays whatever was asked for.
func (b brokenGovernance) replayed(ctx context.Context, _ govern.Act, ids []int64) ([]govern.Outcome, error) {
	return b.Store.Replay(ctx, govern.Act{By: "?", Reason: "?"}, govern.ReplayOptions{}, ids...)
}

// brokenBridge is a store of bridges of which some calls are changed.
type brokenBridge struct {
	bridge.Store
	letter func(*bridge.Letter)
	order  func(*bridge.Order)
	mark   func(*bridge.Mark)
	// single keeps letters one by one, sameEpoch forgets takeovers, unfenced
	// writes under whatever lease is the right one, oneGroup takes all groups for
	// one.
	single, sameEpoch, unfenced, oneGroup bool
}

const onlyGroup = "stock"

func (b *brokenBridge) Lead(ctx context.Context, group, owner string, ttl time.Duration) (bridge.Lease, error) {
	if b.oneGroup {
		group = onlyGroup
	}
	l, err := b.Store.Lead(ctx, group, owner, ttl)
	if b.sameEpoch && l.Held {
		l.Epoch = 1
	}
	return l, err
}

func (b *brokenBridge) Keep(ctx context.Context, l bridge.Lease, letters []bridge.Letter) (int, error) {
	changed := make([]bridge.Letter, len(letters))
	for i, letter := range letters {
		if letter.Record.Event != nil {
			event := *letter.Record.Event
			letter.Record.Event = &event
		}
		if b.letter != nil {
			b.letter(&letter)
		}
		changed[i] = letter
	}
	if b.unfenced {
		l, _ = b.Store.Lead(ctx, l.Group, "second", time.Minute)
	}
	if !b.single {
		return b.Store.Keep(ctx, l, changed)
	}
	fresh := 0
	for i := range changed {
		n, err := b.Store.Keep(ctx, l, changed[i:i+1])
		if fresh += n; err != nil {
			return fresh, err
		}
	}
	return fresh, nil
}

func (b *brokenBridge) Ordered(ctx context.Context, group string, limit int) (bridge.Ordered, error) {
	o, err := b.Store.Ordered(ctx, group, limit)
	for i := range o.Orders {
		if b.order != nil {
			b.order(&o.Orders[i])
		}
	}
	return o, err
}

func (b *brokenBridge) Mark(ctx context.Context, l bridge.Lease, marks []bridge.Mark) error {
	changed := make([]bridge.Mark, len(marks))
	for i, m := range marks {
		if b.mark != nil {
			b.mark(&m)
		}
		changed[i] = m
	}
	return b.Store.Mark(ctx, l, changed)
}
