package bridgetest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
)

func letterCases() []testCase {
	return []testCase{
		{"a letter has the bytes, the headers, the key and the event that the consumer had", asTheConsumerHadIt},
		{"a letter says why, when, and where it came from", saysWhy},
		{"what is no event comes as it was found", undecodable},
		{"what the sink refused comes again, under the same identity, before what lies behind it", refusedComesAgain},
		{"what the sink has kept does not come again", keptDoesNotComeAgain},
		{"what was in hand when a process ended comes again to another, under the same identity", inHandComesAgain},
		{"messages with the same bytes have different identities", sameBytes},
		{"a batch is bounded and no letter is left out", boundedBatches},
		{"a long cause and a long trace are cut, as text", longCause},
		{"a place that does not exist is an error and not silence", missingPlace},
		{"a group without a name or a place is refused", impossibleGroup},
		{"a ladder that is there may be declared again, and one without a group is refused", declaredAgain},
	}
}

func asTheConsumerHadIt(b *bench) {
	raw := b.event("e1")
	b.GiveUp(b, Failure{Exception: "java.lang.IllegalStateException", Message: "no stock"})
	l := b.take(b.source, 1)[0]
	switch {
	case string(l.Record.Raw) != string(raw):
		b.Fatalf("raw is %q, want %q", l.Record.Raw, raw)
	case l.Record.DecodeErr != nil || l.Record.Event == nil || l.Record.Event.ID != "e1" || l.Record.Event.BizKey != "B-e1":
		b.Fatalf("event is %+v, %v", l.Record.Event, l.Record.DecodeErr)
	case l.Record.Key != "o-e1":
		b.Fatalf("key is %q", l.Record.Key)
	case l.Record.Headers["x-team"] != "stock" || l.Record.Headers[settle.HeaderEventID] != "e1":
		b.Fatalf("headers are %v", l.Record.Headers)
	case l.Group != b.Ladder.Group:
		b.Fatalf("group is %q", l.Group)
	case l.ReturnID != "":
		b.Fatalf("return id is %q of what never went back", l.ReturnID)
	case len(l.Wrapping) > 64<<10:
		b.Fatalf("the wrapping has %d bytes", len(l.Wrapping))
	}
}

func saysWhy(b *bench) {
	l := b.die("e1")
	switch {
	case l.DiedAt.IsZero():
		b.Fatal("it does not say when")
	case l.At == (bridge.Place{}) || l.From == (bridge.Place{}):
		b.Fatalf("it lies at %+v and came from %+v", l.At, l.From)
	case l.Class != settle.ClassHandler:
		b.Fatalf("class is %q, want %q", l.Class, settle.ClassHandler)
	case l.Identity == "" || len(l.Identity) > bridge.MaxIdentity || strings.ContainsFunc(l.Identity, func(r rune) bool { return r <= ' ' || r > '~' }):
		b.Fatalf("identity is %q", l.Identity)
	case !slices.Contains(l.To, bridge.ToGroup) || !slices.Contains(l.To, bridge.ToOrigin):
		b.Fatalf("it can go back to %q", l.To)
	}
	b.needs(AbilityCause)
	if l.Exception != "java.lang.IllegalStateException" || l.Message != "no stock" {
		b.Fatalf("cause is %q, %q", l.Exception, l.Message)
	}
	b.needs(AbilityAttempts)
	if l.Attempts < 1 {
		b.Fatalf("attempts are %d", l.Attempts)
	}
}

func undecodable(b *bench) {
	b.Publish(b, "k", []byte("\xff{cut"), map[string]string{"a": "b"})
	b.GiveUp(b, Failure{})
	l := b.take(b.source, 1)[0]
	if l.Record.Event != nil || l.Record.DecodeErr == nil || string(l.Record.Raw) != "\xff{cut" || l.Class != settle.ClassDecode || l.Record.Headers["a"] != "b" {
		b.Fatalf("the letter is %+v", l)
	}
}

func refusedComesAgain(b *bench) {
	for _, id := range []string{"e1", "e2"} {
		b.event(id)
		b.GiveUp(b, Failure{})
	}
	var first string
	var got []string
	b.read(b.source, func(letters []bridge.Letter) (bool, error) {
		if first == "" {
			first = letters[0].Identity
			return false, errRefused
		}
		got = append(got, identities(letters)...)
		return len(got) >= 2, nil
	})
	// A broker of partitions has no order over several of them.
	if !slices.Contains(got, first) || len(slices.Compact(slices.Sorted(slices.Values(got)))) != 2 {
		b.Fatalf("refused was %s, and then came %v", first, got)
	}
}

func keptDoesNotComeAgain(b *bench) {
	first := b.die("e1")
	b.event("e2")
	b.GiveUp(b, Failure{})
	other := b.Again(b)
	defer func() { _ = other.Close() }()
	if second := b.take(b.sourceOf(other), 1)[0]; second.Identity == first.Identity || second.Record.Event.ID != "e2" {
		b.Fatalf("what was kept comes again: %s", second.Identity)
	}
}

func inHandComesAgain(b *bench) {
	b.event("e1")
	b.GiveUp(b, Failure{})
	other := b.Again(b)
	var first string
	b.read(b.sourceOf(other), func(letters []bridge.Letter) (bool, error) {
		first = letters[0].Identity
		return true, errRefused
	})
	if err := other.Close(); err != nil {
		b.Fatalf("Close: %v", err)
	}
	if again := b.take(b.source, 1)[0]; again.Identity != first {
		b.Fatalf("identity was %s and is %s", first, again.Identity)
	}
}

func sameBytes(b *bench) {
	for range 2 {
		b.event("e1")
		b.GiveUp(b, Failure{})
	}
	if l := b.take(b.source, 2); l[0].Identity == l[1].Identity {
		b.Fatalf("both are %s", l[0].Identity)
	}
}

func boundedBatches(b *bench) {
	const n = bridge.MaxLetters + 5
	for i := range n {
		b.event("e" + strconv.Itoa(i))
		b.GiveUp(b, Failure{})
	}
	seen := map[string]bool{}
	b.read(b.source, func(letters []bridge.Letter) (bool, error) {
		if len(letters) > bridge.MaxLetters || len(letters) == 0 {
			b.Errorf("a batch has %d letters", len(letters))
		}
		for _, l := range letters {
			seen[l.Record.Event.ID] = true
		}
		return len(seen) == n, nil
	})
}

func longCause(b *bench) {
	b.needs(AbilityCause)
	b.event("e1")
	long := strings.Repeat("ä", bridge.MaxCause)
	b.GiveUp(b, Failure{Exception: "E", Message: long, Trace: strings.Repeat("at x.y.Z\n", bridge.MaxTrace/8)})
	l := b.take(b.source, 1)[0]
	if len(l.Message) > bridge.MaxCause || len(l.Trace) > bridge.MaxTrace || !strings.HasSuffix(l.Message, "…") || !utf8.ValidString(l.Message) {
		b.Fatalf("cause has %d bytes and trace %d", len(l.Message), len(l.Trace))
	}
}

func missingPlace(b *bench) {
	s, err := b.Broker.Source(b.Missing)
	if err != nil {
		b.Fatalf("Source: %v", err)
	}
	ctx, cancel := context.WithTimeout(b.ctx, b.Patience)
	defer cancel()
	if err := s.Letters(ctx, func(context.Context, []bridge.Letter) error { return nil }); err == nil {
		b.Fatal("Letters says nothing of a place that does not exist")
	}
}

func impossibleGroup(b *bench) {
	for _, g := range []bridge.Group{{Dead: b.group.Dead}, {Name: "g"}, {Name: "g", Dead: []string{""}}} {
		if _, err := b.Broker.Source(g); err == nil {
			b.Errorf("the group %+v passes", g)
		}
	}
}

func declaredAgain(b *bench) {
	again, err := b.Broker.Declare(b.ctx, b.Ladder)
	if err != nil || again.Name != b.group.Name || again.Retry != b.group.Retry || !slices.Equal(again.Dead, b.group.Dead) {
		b.Fatalf("declared again it is %+v, %v; it was %+v", again, err, b.group)
	}
	if _, err := b.Broker.Declare(b.ctx, bridge.Ladder{Topic: b.Ladder.Topic}); err == nil {
		b.Error("a ladder without a group passes")
	}
}
