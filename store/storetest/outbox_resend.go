package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
)

func resendCases[Tx any]() []OutboxCase[Tx] {
	return []OutboxCase[Tx]{
		{"a sent event is listed to be sent again under an id of its own, counted, audited and told by its trail", resendListed[Tx]},
		{"what was not sent is not sent again, and the answer says what to do instead", resendRefused[Tx]},
		{"an event whose row was deleted is not sent again, and the answer says so", resendDeleted[Tx]},
		{"an event that is to be sent again is not deleted before", resendKept[Tx]},
		{"a resend without a reason, or by nobody, is refused", resendNeedsReason[Tx]},
	}
}

// resend orders events to be sent again and returns the outcomes.
func (o *outbox[Tx]) resend(eventIDs ...string) []govern.Resent {
	o.Helper()
	got, err := o.Governance.Resend(o.ctx, actor, eventIDs...)
	if err != nil || len(got) != len(eventIDs) {
		o.Fatalf("Resend: %+v, %v; want an outcome for each of %v", got, err, eventIDs)
	}
	return got
}

func (o *outbox[Tx]) wantResent(eventID, messageID string) {
	o.Helper()
	want := govern.Resent{EventID: eventID, Result: "done", MessageID: messageID}
	if got := o.resend(eventID); got[0] != want {
		o.Fatalf("Resend: %+v, want %+v", got[0], want)
	}
}

// sendExtra acknowledges the only row that waits outside the log.
func (o *outbox[Tx]) sendExtra(cursor int64, eventID, messageID string) {
	o.Helper()
	rows := o.side(relay.SideQuery{Side: relay.SideExtra}).Rows
	if len(rows) != 1 || rows[0].Event.ID != eventID || rows[0].MessageID != messageID {
		o.Fatalf("listed are %+v, want %s as %s", rows, eventID, messageID)
	}
	o.flush(cursor, relay.Flush{Sent: []relay.Sent{sentRow(rows[0], relay.FromExtra)}})
	o.wantRows("listed after it was sent are", o.side(relay.SideQuery{Side: relay.SideExtra}).Rows)
}

func resendListed[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("ab")
	last := r[1].ID
	o.flush(last, relay.Flush{Sent: []relay.Sent{sentRow(r[0], relay.FromLog), sentRow(r[1], relay.FromLog)}})
	before := o.poll(relay.PollQuery{}).Controls
	o.wantResent("a", "a#1")
	if now := o.poll(relay.PollQuery{}).Controls; now == before {
		t.Errorf("the version of the controls stays %d: the relay looks for it at its next sweep only", now)
	}
	o.wantStatus("a", "PENDING")
	o.wantStatus("b", "SENT")
	if got := o.resend("a")[0]; got.Result != "refused" || got.Why == "" {
		t.Errorf("while it waits a second order gives %+v", got)
	}
	o.sendExtra(last, "a", "a#1")
	o.wantStatus("a", "SENT")
	o.wantResent("b", "b#1")
	o.sendExtra(last, "b", "b#1")
	o.wantResent("a", "a#2")
	o.sendExtra(last, "a", "a#2")
	entries, err := o.Governance.Audit(o.ctx, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	told := ""
	for _, e := range entries {
		told += fmt.Sprintf("%s %s by %s, %s; ", e.Action, e.Target, e.Actor, e.Reason)
	}
	by := fmt.Sprintf(" by %s, %s; ", actor.By, actor.Reason)
	if want := "outbox.resend a" + by + "outbox.resend b" + by + "outbox.resend a" + by; told != want {
		t.Errorf("audited are %s\nwant %s", told, want)
	}
	o.wantStages("a", "appended", "published", "published", "published", "resend", "resend")
}

// wantStages checks what the trail of an event tells, in the order of words.
func (o *outbox[Tx]) wantStages(eventID string, want ...string) {
	o.Helper()
	steps, err := o.Governance.Trail(o.ctx, eventID)
	if err != nil {
		o.Fatal(err)
	}
	var stages []string
	for _, step := range steps {
		stages = append(stages, step.Stage)
		if step.Stage == govern.StageResend && (step.By != actor.By || step.Note != actor.Reason) {
			o.Errorf("the trail does not tell who and why: %+v", step)
		}
	}
	slices.Sort(stages)
	if !slices.Equal(stages, want) {
		o.Errorf("the trail of %s tells %v, want %v", eventID, stages, want)
	}
}

func resendRefused[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("rds")
	head := o.follow("dead", "behind")
	if err := o.Governance.Skip(o.ctx, actor, "s"); err != nil {
		t.Fatal(err)
	}
	topic := r[0].Event.Topic
	o.flush(head[1].ID, relay.Flush{
		Dead:  []relay.Death{{ID: head[0].ID, Destination: topic, Key: "k", From: relay.FromParked, Attempts: 10, Class: "publish_refused", Cause: "refused"}},
		Park:  []relay.Park{parkRow(r[0], "publish_refused", 1, o.Now())},
		Delay: []relay.Delay{{ID: r[1].ID, EventID: "d", Destination: topic, Key: "key-d", Due: o.Now().Add(time.Hour)}},
		Skip:  []relay.Skip{{ID: r[2].ID, EventID: "s", Destination: topic}},
	})
	o.append(event("p", "key-p"))
	for id, says := range map[string]string{
		"dead": "settle dead replay", "behind": "behind another event", "r": "tries again by itself", "d": "its time comes",
		"s": "supersedes", "p": "the relay sends it by itself", "unknown": "no such event",
	} {
		if got := o.resend(id)[0]; got.Result != "refused" || got.MessageID != "" || got.EventID != id {
			t.Errorf("Resend of %s gives %+v, want it refused", id, got)
		} else {
			contains(t, got.Why, says)
		}
	}
	o.wantRows("listed are", o.side(relay.SideQuery{Side: relay.SideExtra}).Rows)
	if entries, err := o.Governance.Audit(o.ctx, 1, 100); err != nil || len(entries) != 0 {
		t.Errorf("what was refused is audited: %+v, %v", entries, err)
	}
}

func resendDeleted[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("abc")
	o.flush(r[1].ID, relay.Flush{Sent: []relay.Sent{sentRow(r[0], relay.FromLog), sentRow(r[1], relay.FromLog)}})
	o.Pass(time.Millisecond)
	if n := o.retain(o.Now(), 100); n != 2 {
		t.Fatalf("%d events were deleted, want 2", n)
	}
	got := o.resend("a")[0]
	if got.Result != "refused" {
		t.Fatalf("Resend gives %+v", got)
	}
	contains(t, got.Why, "was deleted")
	contains(t, got.Why, "supersedes")
}

func resendKept[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("ab")
	o.flush(r[1].ID, relay.Flush{Sent: []relay.Sent{sentRow(r[0], relay.FromLog), sentRow(r[1], relay.FromLog)}})
	o.wantResent("a", "a#1")
	o.Pass(time.Millisecond)
	if n := o.retain(o.Now(), 100); n != 1 {
		t.Errorf("%d events were deleted, want 1", n)
	}
	o.sendExtra(r[1].ID, "a", "a#1")
}

func resendNeedsReason[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("a")
	o.flush(r[0].ID, relay.Flush{Sent: []relay.Sent{sentRow(r[0], relay.FromLog)}})
	for _, a := range []govern.Act{{By: "ann"}, {Reason: "why not"}} {
		if got, err := o.Governance.Resend(o.ctx, a, "a"); err == nil {
			t.Errorf("a resend with %+v gives %+v", a, got)
		}
	}
	o.wantStatus("a", "SENT")
}
