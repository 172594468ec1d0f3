package cli_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/relay"
)

// crewSends relays by as many relays as there are lanes until these messages
// have reached the broker, each once and in any order.
func (l lives) crewSends(ids ...string) {
	l.Helper()
	broker, sent, ended := make(published, 100), make(chan int, 100), make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	crew := relay.NewCrew(l.db.NewLog, broker, relay.Config{OnSent: func(s []relay.Sent) { sent <- len(s) }})
	go func() { ended <- crew.Run(ctx) }()
	for n := 0; n < len(ids); {
		select {
		case more := <-sent:
			n += more
		case err := <-ended:
			l.Fatalf("the crew ends with %v", err)
		case <-l.Context().Done():
			l.Fatalf("%d of %v were sent", n, ids)
		}
	}
	stop()
	if err := <-ended; err != nil {
		l.Error(err)
	}
	close(broker)
	var got []string
	for id := range broker {
		got = append(got, id)
	}
	slices.Sort(got)
	if !slices.Equal(got, ids) {
		l.Errorf("the broker got %v, want %v", got, ids)
	}
}

// crewStops wants a crew to stop without having sent anything.
func (l lives) crewStops() {
	l.Helper()
	broker := make(published, 100)
	err := relay.NewCrew(l.db.NewLog, broker, relay.Config{}).Run(l.Context())
	if !errors.Is(err, settle.ErrNewGeneration) || !strings.Contains(err.Error(), "settle outbox restart") {
		l.Errorf("the crew ends with %v; want it to say that a person decides, and how", err)
	}
	if len(broker) > 0 {
		l.Errorf("the broker got %s", <-broker)
	}
}

func (l lives) lanes(args ...string) string {
	l.Helper()
	return must(l.T, cli.ExitOK, append([]string{"outbox", "lanes", "order", "--db", "order=" + l.url}, args...)...)
}

func TestARestartOfADividedOutboxIsThatOfEveryLaneAlsoOfThoseThatHaveNotBegun(t *testing.T) {
	t.Parallel()
	l := lives{T: t, url: postgresSchema(t)}
	var err error
	if l.db, err = dial.Store(t.Context(), l.url, dial.StoreConfig{Service: "order"}); err != nil {
		t.Fatal(err)
	}
	defer l.db.Close()
	l.lanes("2", "--reason", "a test")
	appendTo(t, l.db, "a1", "a2", "a3", "a4", "a5")
	l.crewSends("a1", "a2", "a3", "a4", "a5")
	if out := l.lanes(); strings.Count(out, " of 2 ") != 2 {
		t.Fatalf("the lanes are\n%s", out)
	}

	l.exec("TRUNCATE t_outbox_event RESTART IDENTITY")
	appendTo(t, l.db, "b1", "b2", "b3", "b4", "b5", "b6")
	l.crewStops()
	out := l.restart(cli.ExitFinding)
	for _, says := range []string{"of another life", "6 rows, ids 1 to 6", "nobody leads", "nothing was changed"} {
		if !strings.Contains(out, says) {
			t.Errorf("restart without a choice does not say %q:\n%s", says, out)
		}
	}
	if out = l.restart(cli.ExitOK, "--from", "3", "--yes", "--reason", "it was emptied"); !strings.Contains(out, "4 rows from there on are sent, 2 rows before count as sent") {
		t.Errorf("restart prints\n%s", out)
	}
	l.crewSends("b3", "b4", "b5", "b6")

	// Again, while an ordered change of the lanes has not begun.
	l.exec("TRUNCATE t_outbox_event RESTART IDENTITY")
	appendTo(t, l.db, "c1", "c2", "c3")
	l.lanes("3", "--reason", "a test")
	if out := l.restart(cli.ExitOK, "--from-start", "--yes", "--reason", "and again"); !strings.Contains(out, "3 rows from there on are sent") {
		t.Errorf("restart prints\n%s", out)
	}
	l.crewSends("c1", "c2", "c3")
	if out := l.lanes(); strings.Count(out, " of 3 ") != 3 {
		t.Errorf("the lanes are\n%s", out)
	}
}
