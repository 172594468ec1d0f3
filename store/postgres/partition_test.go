package postgres

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// PartitionForTest makes partitions of so many ids of the empty outbox at a URL,
// anew where there are some.
func PartitionForTest(t testing.TB, at string, ids int64) {
	t.Helper()
	if repartitioned(t, at, ids, 2) {
		return
	}
	s, err := Schema(t.Context(), at, true)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ChangePartitions(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	if n, err := s.PartitionWidth(t.Context()); err != nil || n != ids {
		t.Fatalf("partitions take %d ids, %v; want %d", n, err, ids)
	}
}

// repartitioned puts partitions back to where they begin, which takes less time
// than to make the table anew. Others are made ahead.
func repartitioned(t testing.TB, at string, ids, parts int64) bool {
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	is, err := findPartitions(ctx, conn)
	if err != nil {
		t.Fatal(err)
	}
	if !is.is {
		return false
	}
	var steps []string
	for _, p := range is.parts {
		steps = append(steps, "DROP TABLE "+p.name)
	}
	all := partitions{withRange(noFirst, ids)}
	for n := range parts {
		all = append(all, withRange((n+1)*ids, (n+2)*ids))
	}
	for _, p := range append(all, withRange((parts+1)*ids, noEnd)) {
		steps = append(append(steps, p.made()...), p.attached())
	}
	if _, err := conn.Exec(ctx, strings.Join(steps, ";")); err != nil {
		t.Fatal(err)
	}
	return true
}

func TestARangeIsReadAsTheCatalogWritesIt(t *testing.T) {
	for bound, want := range map[string]partition{
		"FOR VALUES FROM (MINVALUE) TO ('7')":       {"p", noFirst, 7},
		"FOR VALUES FROM ('7') TO ('1000007')":      {"p", 7, 1000007},
		"FOR VALUES FROM ('1000007') TO (MAXVALUE)": {"p", 1000007, noEnd},
		"FOR VALUES FROM (3) TO (4)":                {"p", 3, 4},
	} {
		if got, ok := partitionOf("p", bound); !ok || got != want {
			t.Errorf("%s is %+v, %v", bound, got, ok)
		}
	}
	for _, bound := range []string{"DEFAULT", "FOR VALUES IN (1)", "FOR VALUES FROM (1, 2) TO (3, 4)", ""} {
		if got, ok := partitionOf("p", bound); ok {
			t.Errorf("%s is %+v", bound, got)
		}
	}
}

func TestPartitionsWithAHoleOrWithoutAnEndAreLeftAlone(t *testing.T) {
	all := partitionedAt(0, 10)
	if !all.whole() {
		t.Fatalf("%+v is not whole", all)
	}
	for i := range all {
		if slices.Delete(slices.Clone(all), i, i+1).whole() {
			t.Errorf("whole without %s", all[i].name)
		}
	}
}

func TestAPartitionGoesWhenAllHaveReadItAndTheSequenceHasPassedIt(t *testing.T) {
	all := partitionedAt(0, 10) // up to 10, from 10, from 20, …
	for _, c := range []struct {
		read, given int64
		want        bool
	}{{19, 19, true}, {18, 19, false}, {19, 18, false}, {100, 100, true}} {
		if p, may := all.retired(c.read, c.given); may != c.want || p.from != 10 {
			t.Errorf("read up to %d of %d: %+v may go is %v", c.read, c.given, p, may)
		}
	}
	if p, may := (partitions{all[0], all[1], withRange(20, noEnd)}).retired(100, 100); may {
		t.Errorf("the last one to tell the width by may go: %+v", p)
	}
}

func TestPartitionsAreMadeAheadWhereverTheSequenceIs(t *testing.T) {
	all := partitionedAt(0, 10)
	for _, given := range []int64{0, 9, 10, 30, 47, 55, 89, 90, 99, 500, 12345} {
		e, due := all.extended(given)
		if !due {
			if all.ahead(given) <= partitionsAhead/2 {
				t.Errorf("at id %d %d are ahead, and none are made", given, all.ahead(given))
			}
			continue
		}
		after := append(append(slices.Clone(all[:len(all)-1]), e.sealed), e.added...)
		if !after.whole() || after.ahead(given) != partitionsAhead || after.width() != 10 {
			t.Errorf("at id %d there are %d ahead of %+v", given, after.ahead(given), after)
		}
		if e.was.name == e.sealed.name || given >= e.sealed.until && given >= e.was.from {
			t.Errorf("at id %d the highest is sealed as %+v", given, e.sealed)
		}
	}
}
