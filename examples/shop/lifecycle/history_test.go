package lifecycle

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A life is checked against a statement of what is right that looks at the
// whole history at once, and knows nothing of rows: which of the things heard
// was first, and what that means.

// heard is one thing that a machine is told. Lost says that it began to work on
// it, the system of somebody else did its part, and nothing was kept here.
type heard struct {
	on, when string
	lost     bool
}

// lived is what became of it: the state at the end and the events, in order.
type lived struct {
	state  string
	events []string
}

func (l lived) equals(o lived) bool { return l.state == o.state && slices.Equal(l.events, o.events) }

// life is one machine under test.
type life struct {
	machine Machine
	// letters are what histories are made of, depth how long they are when all
	// of them are tried.
	letters []heard
	depth   int
	// right says what must become of a history.
	right func(history []heard) lived
	// asks, when not nil, makes whoever answers what the machine's answers
	// depend on; else a letter brings its own.
	asks func() func(m Machine, state string, h heard) (when string)
}

// live lets the machine hear a history.
func (l life) live(history []heard) (lived, error) {
	ask := func(_ Machine, _ string, h heard) string { return h.when }
	if l.asks != nil {
		ask = l.asks()
	}
	at := lived{state: l.machine.Initial}
	for _, h := range history {
		when := ask(l.machine, at.state, h)
		if h.lost {
			continue
		}
		t, ok := l.machine.Next(at.state, h.on, when)
		if !ok {
			return at, fmt.Errorf("%s: %q has no answer to %s (%s)", l.machine.Name, at.state, h.on, when)
		}
		at.state = t.To
		if t.Emits != "" {
			at.events = append(at.events, t.Emits)
		}
	}
	return at, nil
}

// wrong returns why the machine's answer to a history is not right, or nil.
func (l life) wrong(history []heard) error {
	got, err := l.live(history)
	if err != nil {
		return err
	}
	if want := l.right(history); !got.equals(want) {
		return fmt.Errorf("%s heard %v: it is %q after %v, but %q after %v is right", l.machine.Name, history, got.state, got.events, want.state, want.events)
	}
	return nil
}

// repeated returns why hearing one thing of a history again, at once or later,
// is not the same as hearing it once, or nil.
func (l life) repeated(history []heard, which, again int) error {
	once, err := l.live(history)
	if err != nil {
		return err
	}
	twice, err := l.live(slices.Insert(slices.Clone(history), again, history[which]))
	if err != nil {
		return err
	}
	if !once.equals(twice) {
		return fmt.Errorf("%s heard %v with %v again at %d: it is %q after %v, not %q after %v",
			l.machine.Name, history, history[which], again, twice.state, twice.events, once.state, once.events)
	}
	return nil
}

// shortest tries all histories up to the depth of l, short ones first, and
// returns why the first of them is wrong.
func (l life) shortest() error {
	for n := 1; n <= l.depth; n++ {
		if err := l.each(make([]heard, 0, n), n); err != nil {
			return err
		}
	}
	return nil
}

func (l life) each(history []heard, n int) error {
	if n == 0 {
		if err := l.wrong(history); err != nil {
			return err
		}
		if last := len(history) - 1; !history[last].lost && !early(history, last) {
			return l.repeated(history, last, len(history))
		}
		return nil
	}
	for _, h := range l.letters {
		if err := l.each(append(history, h), n-1); err != nil {
			return err
		}
	}
	return nil
}

// early reports whether a timer comes before what starts it: nobody has set
// it, so it is no first time that a second one could repeat.
func early(history []heard, which int) bool {
	return history[which].on == RiskReviewDue && !before(history, which, OrderCreated)
}

func TestEveryShortHistoryEndsAsItsFirstDecisionSays(t *testing.T) {
	for _, l := range lives() {
		t.Run(l.machine.Name, func(t *testing.T) {
			if err := l.shortest(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLongHistoriesEndTheSameAndRepeatsChangeNothing(t *testing.T) {
	for _, l := range lives() {
		t.Run(l.machine.Name, rapid.MakeCheck(func(t *rapid.T) {
			history := rapid.SliceOfN(rapid.SampledFrom(l.letters), 1, 25).Draw(t, "history")
			if err := l.wrong(history); err != nil {
				t.Fatal(err)
			}
			which := rapid.IntRange(0, len(history)-1).Draw(t, "which")
			again := rapid.IntRange(which+1, len(history)).Draw(t, "again")
			if history[which].lost || early(history, which) {
				return
			}
			if err := l.repeated(history, which, again); err != nil {
				t.Fatal(err)
			}
		}))
	}
}

// TestWhatIsTriedCoversTheTables shows that the histories come to every state
// and every row.
func TestWhatIsTriedCoversTheTables(t *testing.T) {
	for _, l := range lives() {
		visited := map[Transition]bool{}
		l.walk(l.machine.Initial, visited)
		for _, row := range l.machine.Rows {
			if !visited[row] {
				t.Errorf("%s: no history comes to %q on %s (%s)", l.machine.Name, row.From, row.On, row.When)
			}
		}
		for _, on := range l.machine.Inputs() {
			if !slices.ContainsFunc(l.letters, func(h heard) bool { return h.on == on && !h.lost }) {
				t.Errorf("%s: no history has %s", l.machine.Name, on)
			}
		}
	}
}

// walk marks every row that can be come to from state.
func (l life) walk(state string, visited map[Transition]bool) {
	for _, row := range l.machine.Rows {
		if row.From == state && !visited[row] {
			visited[row] = true
			l.walk(row.To, visited)
		}
	}
}

// TestEachPlantedRowIsNoticed changes every row of every table, in each of
// several ways, one at a time: each must break a statement.
func TestEachPlantedRowIsNoticed(t *testing.T) {
	kinds := []struct {
		name  string
		plant func(t Transition) (Transition, bool)
	}{
		{"says nothing", func(t Transition) (Transition, bool) { t.Emits = ""; return t, true }},
		{"stays as it is", func(t Transition) (Transition, bool) { t.To = t.From; return t, true }},
		{"says cancelled", func(t Transition) (Transition, bool) { t.Emits = OrderCancelled; return t, true }},
		{"starts anew", func(t Transition) (Transition, bool) { t.To = None; return t, true }},
		{"is not there", func(Transition) (Transition, bool) { return Transition{}, false }},
	}
	for _, l := range lives() {
		for i, row := range l.machine.Rows {
			for _, kind := range kinds {
				planted, kept := kind.plant(row)
				if planted == row {
					continue
				}
				with := l
				with.machine.Rows = slices.Clone(l.machine.Rows)
				if with.machine.Rows[i] = planted; !kept {
					with.machine.Rows = slices.Delete(with.machine.Rows, i, i+1)
				}
				if with.shortest() == nil {
					t.Errorf("%s: nobody notices that %q on %s (%s) %s", l.machine.Name, row.From, row.On, row.When, kind.name)
				}
			}
		}
	}
}
