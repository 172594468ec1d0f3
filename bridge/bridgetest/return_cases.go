package bridgetest

import (
	"context"
	"errors"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
)

func returnCases() []testCase {
	return []testCase{
		{"what goes back to its group is received by it alone, as it was", toGroupAlone},
		{"what goes back to its origin is received by every group, as it was", toOrigin},
		{"what dies again after a return is another death, and names the return", diesAgain},
		{"a return may be tried again under its id, while letters are read", returnedTwice},
		{"what can't be understood goes back as it was found", undecodableGoesBack},
		{"after Close a return is refused and nothing is read", closed},
	}
}

func toGroupAlone(b *bench) {
	l := b.die("e1")
	b.received(b.ReceiveOther, l.Record.Raw)
	b.sendBack(l, "r1", bridge.ToGroup)
	got := b.received(b.Receive, l.Record.Raw)
	if got.Headers[bridge.HeaderReturn] != "r1" || got.Headers["x-team"] != "stock" || got.Headers[settle.HeaderEventID] != "e1" {
		b.Fatalf("headers are %v", got.Headers)
	}
	if got.Key != "o-e1" {
		b.Fatalf("key is %q", got.Key)
	}
	if r, ok := b.ReceiveOther(b); ok {
		b.Fatalf("another group receives it: %q", r.Raw)
	}
}

func toOrigin(b *bench) {
	l := b.die("e1")
	b.received(b.ReceiveOther, l.Record.Raw)
	b.sendBack(l, "r1", bridge.ToOrigin)
	if got := b.received(b.ReceiveOther, l.Record.Raw); got.Headers[bridge.HeaderReturn] != "r1" {
		b.Fatalf("headers are %v", got.Headers)
	}
	b.received(b.Receive, l.Record.Raw)
}

func diesAgain(b *bench) {
	for _, to := range []bridge.Target{bridge.ToGroup, bridge.ToOrigin} {
		id := "e-" + string(to)
		first := b.die(id)
		b.sendBack(first, "r-"+id, to)
		b.GiveUp(b, Failure{Exception: "java.lang.IllegalStateException", Message: "still no stock"})
		again := b.take(b.source, 1)[0]
		switch {
		case again.Identity == first.Identity:
			b.Fatalf("by %s: the second death has the identity of the first", to)
		case again.ReturnID != "r-"+id:
			b.Fatalf("by %s: the return id is %q", to, again.ReturnID)
		case string(again.Record.Raw) != string(first.Record.Raw):
			b.Fatalf("by %s: raw is %q", to, again.Record.Raw)
		}
		b.sendBack(again, "r2-"+id, to)
		if got := b.received(b.Receive, first.Record.Raw); got.Headers[bridge.HeaderReturn] != "r2-"+id {
			b.Fatalf("by %s: headers of the second return are %v", to, got.Headers)
		}
	}
}

func returnedTwice(b *bench) {
	l := b.die("e1")
	ctx, stop := context.WithCancel(b.ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- b.source.Letters(ctx, func(context.Context, []bridge.Letter) error { return nil })
	}()
	for range 2 {
		b.sendBack(l, "r1", bridge.ToGroup)
	}
	stop()
	if err := <-ended; err != nil {
		b.Fatalf("Letters: %v", err)
	}
	b.received(b.Receive, l.Record.Raw)
}

func undecodableGoesBack(b *bench) {
	b.Publish(b, "k", []byte("\xff{cut"), map[string]string{"a": "b"})
	b.GiveUp(b, Failure{})
	l := b.take(b.source, 1)[0]
	b.sendBack(l, "r1", bridge.ToGroup)
	if got := b.received(b.Receive, []byte("\xff{cut")); got.Headers["a"] != "b" {
		b.Fatalf("headers are %v", got.Headers)
	}
}

func closed(b *bench) {
	l := b.die("e1")
	other := b.Again(b)
	s := b.sourceOf(other)
	if err := other.Close(); err != nil {
		b.Fatalf("Close: %v", err)
	}
	if err := s.Return(b.ctx, bridge.Return{ID: "r1", To: l.To[0], Letter: stored(l)}); err == nil {
		b.Error("a return after Close passes")
	}
	ctx, cancel := context.WithTimeout(b.ctx, b.Patience)
	defer cancel()
	if err := s.Letters(ctx, func(context.Context, []bridge.Letter) error { return nil }); !errors.Is(err, settle.ErrClosed) {
		b.Errorf("Letters after Close: %v", err)
	}
}
