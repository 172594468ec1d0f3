package direct_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/direct"
)

// broker answers with the next of its answers, and with the last again and again.
// What it is asked it notes.
type broker struct {
	mu      sync.Mutex
	answers []error
	asked   []string
	hold    chan struct{} // when it is not nil, answers wait for it
	with    map[string]int
	most    int // how many were there at a time
	doubled bool
}

func (b *broker) Publish(ctx context.Context, batch []settle.Message) []settle.Receipt {
	key := batch[0].Event.AggregateID
	b.mu.Lock()
	if b.with == nil {
		b.with = map[string]int{}
	}
	b.with[key]++
	b.doubled = b.doubled || b.with[key] > 1
	b.asked = append(b.asked, batch[0].ID)
	var err error
	if len(b.answers) > 0 {
		err = b.answers[min(len(b.asked), len(b.answers))-1]
	}
	all := 0
	for _, n := range b.with {
		all += n
	}
	b.most = max(b.most, all)
	b.mu.Unlock()
	if b.hold != nil {
		select {
		case <-b.hold:
		case <-ctx.Done():
			err = &settle.PublishError{Scope: settle.ScopeBroker, Err: ctx.Err()}
		}
	}
	b.mu.Lock()
	b.with[key]--
	b.mu.Unlock()
	return []settle.Receipt{{Err: err}}
}

// shelf keeps what is stored, or refuses it.
type shelf struct {
	mu   sync.Mutex
	err  error
	kept []string
}

func (s *shelf) store(ctx context.Context, e *settle.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(s.err, ctx.Err()); err != nil {
		return err
	}
	s.kept = append(s.kept, e.ID)
	return nil
}

func event(n int) *settle.Event {
	return &settle.Event{ID: fmt.Sprint("e-", n), Type: "page.seen", AggregateID: fmt.Sprint("k-", n%3), Payload: []byte("{}")}
}

func failure(scope settle.Scope) error {
	return &settle.PublishError{Scope: scope, Err: errors.New("no")}
}

var quiet = slog.New(slog.DiscardHandler)

func TestWhatTheBrokerHoldsIsNotStoredAndAllElseIs(t *testing.T) {
	for name, c := range map[string]struct {
		answer error
		want   direct.Outcome
	}{
		"held":          {nil, direct.Sent},
		"in doubt":      {failure(settle.ScopeBroker), direct.Stored},
		"no such topic": {failure(settle.ScopeTopic), direct.Stored},
		"refused":       {failure(settle.ScopeRecord), direct.Stored},
		"another error": {errors.New("odd"), direct.Stored},
	} {
		b, kept := &broker{answers: []error{c.answer}}, &shelf{}
		got, err := direct.New(b, kept.store, direct.Config{Logger: quiet}).Send(t.Context(), event(1))
		stored := slices.Equal(kept.kept, []string{"e-1"})
		if err != nil || got != c.want || stored != (c.want == direct.Stored) || !slices.Equal(b.asked, []string{"e-1"}) {
			t.Errorf("%s: %v, %v, stored %v, asked %v", name, got, err, kept.kept, b.asked)
		}
	}
}

func TestAnEventThatCanNotBeOneIsRefusedBeforeAnythingIsTried(t *testing.T) {
	b, kept := &broker{}, &shelf{}
	_, err := direct.New(b, kept.store, direct.Config{Logger: quiet}).Send(t.Context(), &settle.Event{Type: "t"})
	var invalid *settle.InvalidEventError
	if !errors.As(err, &invalid) || len(b.asked)+len(kept.kept) > 0 {
		t.Errorf("%v, asked %v, stored %v", err, b.asked, kept.kept)
	}
}

func TestWhatIsNeitherSentNorStoredIsNamedWithWhatIsKnown(t *testing.T) {
	away := errors.New("the database is away")
	for _, c := range []struct {
		answer  error
		unknown bool
	}{{failure(settle.ScopeBroker), true}, {failure(settle.ScopeRecord), false}, {failure(settle.ScopeTopic), false}} {
		s := direct.New(&broker{answers: []error{c.answer}}, (&shelf{err: away}).store, direct.Config{Logger: quiet})
		got, err := s.Send(t.Context(), event(1))
		var lost *direct.LostError
		if !errors.As(err, &lost) || got != direct.Lost || lost.Unknown != c.unknown || lost.EventID != "e-1" || !errors.Is(err, away) || !errors.Is(err, c.answer) || s.Stats().Lost != 1 {
			t.Errorf("%v: %v, %+v", c.answer, got, err)
		}
	}
}

func TestAnEventWhoseCallerHasGivenUpIsStored(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b, kept := &broker{hold: make(chan struct{})}, &shelf{}
	s := direct.New(b, kept.store, direct.Config{Logger: quiet, Timeout: time.Minute})
	go func() {
		for {
			b.mu.Lock()
			n := len(b.asked)
			b.mu.Unlock()
			if n > 0 {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if got, err := s.Send(ctx, event(1)); got != direct.Stored || err != nil || len(kept.kept) != 1 {
		t.Errorf("%v, %v, %v", got, err, kept.kept)
	}
	if got, err := s.Send(ctx, event(2)); got != direct.Stored || err != nil || len(kept.kept) != 2 { // it had ended before
		t.Errorf("%v, %v, %v", got, err, kept.kept)
	}
}

func TestABrokerThatFailsIsNotAskedForAWhileAndThenByOneEvent(t *testing.T) {
	away := failure(settle.ScopeBroker)
	b, kept := &broker{answers: []error{away, away, away, nil}}, &shelf{}
	var log bytes.Buffer
	s := direct.New(b, kept.store, direct.Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Failures: 3, Pause: 50 * time.Millisecond})
	for n := range 6 {
		if got, err := s.Send(t.Context(), event(n)); got != direct.Stored || err != nil {
			t.Fatalf("%v, %v", got, err)
		}
	}
	if stats := s.Stats(); len(b.asked) != 3 || stats != (direct.Stats{Stored: 6, Unasked: 3, Resting: true}) {
		t.Fatalf("asked %v, %+v", b.asked, stats)
	}
	for s.Stats().Resting {
		time.Sleep(time.Millisecond)
	}
	if got, err := s.Send(t.Context(), event(6)); got != direct.Sent || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	for _, line := range []string{"not asked for a while", "takes events again"} {
		if bytes.Count(log.Bytes(), []byte(line)) != 1 {
			t.Errorf("the log does not say %q once:\n%s", line, &log)
		}
	}
}

func TestRefusalsOfSingleEventsDoNotRestTheBroker(t *testing.T) {
	b, kept := &broker{answers: []error{failure(settle.ScopeRecord)}}, &shelf{}
	s := direct.New(b, kept.store, direct.Config{Logger: quiet, Failures: 2})
	for n := range 10 {
		if _, err := s.Send(t.Context(), event(n)); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.asked) != 10 || s.Stats().Resting {
		t.Errorf("it was asked %d times of 10", len(b.asked))
	}
}

func TestAnEventThatIsNotDueIsStoredForItsTime(t *testing.T) {
	b, kept := &broker{}, &shelf{}
	e := event(1)
	e.NotBefore = time.Now().Add(time.Hour)
	if got, err := direct.New(b, kept.store, direct.Config{Logger: quiet}).Send(t.Context(), e); got != direct.Stored || err != nil || len(b.asked) > 0 {
		t.Errorf("%v, %v, asked %v", got, err, b.asked)
	}
}

func TestOneEventOfAKeyIsWithTheBrokerAtATimeAndNoMoreThanThereIsRoomFor(t *testing.T) {
	b, kept := &broker{hold: make(chan struct{})}, &shelf{}
	s := direct.New(b, kept.store, direct.Config{Logger: quiet, Timeout: time.Minute, MaxInFlight: 2})
	const events = 60
	var all sync.WaitGroup
	for n := range events {
		all.Go(func() {
			if got, err := s.Send(t.Context(), event(n)); got != direct.Sent || err != nil {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	for range events {
		b.hold <- struct{}{}
	}
	all.Wait()
	if b.doubled || b.most > 2 || s.Stats().Sent != events {
		t.Errorf("two of a key at once: %v; %d at once; %+v", b.doubled, b.most, s.Stats())
	}
}

func TestAnEventForWhichThereIsNoRoomInTimeIsStored(t *testing.T) {
	b, kept := &broker{hold: make(chan struct{})}, &shelf{}
	s := direct.New(b, kept.store, direct.Config{Logger: quiet, Timeout: 30 * time.Millisecond, MaxInFlight: 1})
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			if got, err := s.Send(t.Context(), event(n)); got != direct.Stored || err != nil {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	all.Wait()
	if len(kept.kept) != 4 {
		t.Errorf("stored are %v", kept.kept)
	}
}

func TestCallersWhoGiveUpSayNothingOfTheBroker(t *testing.T) {
	b, kept := &broker{hold: make(chan struct{})}, &shelf{}
	s := direct.New(b, kept.store, direct.Config{Logger: quiet, Failures: 2, Timeout: time.Minute})
	for n := range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if got, err := s.Send(ctx, event(n)); got != direct.Stored || err != nil {
			t.Errorf("%v, %v", got, err)
		}
		cancel()
	}
	close(b.hold)
	if got, err := s.Send(t.Context(), event(6)); got != direct.Sent || err != nil || s.Stats().Resting {
		t.Errorf("%v, %v, %+v", got, err, s.Stats())
	}
}

func TestEventsOfOneKeyTakeNoRoomOfOthers(t *testing.T) {
	b, kept := &broker{hold: make(chan struct{})}, &shelf{}
	s := direct.New(b, kept.store, direct.Config{Logger: quiet, MaxInFlight: 2, Timeout: time.Minute})
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			if _, err := s.Send(t.Context(), event(3*n)); err != nil { // all of one key
				t.Error(err)
			}
		})
	}
	b.hold <- struct{}{} // one of them is at the broker, others wait
	all.Go(func() {
		if _, err := s.Send(t.Context(), event(1)); err != nil {
			t.Error(err)
		}
	})
	for other := false; !other; {
		time.Sleep(time.Millisecond)
		b.mu.Lock()
		other = slices.Contains(b.asked, "e-1")
		b.mu.Unlock()
	}
	close(b.hold)
	all.Wait()
	if s.Stats().Sent != 9 {
		t.Errorf("%+v", s.Stats())
	}
}

// panicking panics as often as it is told to, and then takes everything.
type panicking struct{ times int }

func (p *panicking) Publish(context.Context, []settle.Message) []settle.Receipt {
	if p.times--; p.times >= 0 {
		panic("out of its mind")
	}
	return []settle.Receipt{{}}
}

func TestAPublisherThatPanicsCostsNoEventAndIsAskedAgain(t *testing.T) {
	kept := &shelf{}
	s := direct.New(&panicking{times: 3}, kept.store, direct.Config{Logger: quiet, Failures: 2, Pause: 20 * time.Millisecond})
	for n := 0; s.Stats().Sent == 0; n++ {
		if _, err := s.Send(t.Context(), event(n)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	if stats := s.Stats(); stats.Stored-stats.Unasked != 3 || int(stats.Stored) != len(kept.kept) || stats.Lost > 0 {
		t.Errorf("%+v, %d stored", stats, len(kept.kept))
	}
}
