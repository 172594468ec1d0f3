package govern_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/govern"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// service answers from memory; the methods not needed here are the nil Store's.
type service struct {
	govern.Store
	steps   []govern.Step
	letters []govern.DeadLetter
	audit   []govern.AuditEntry
	err     error
	// only, when set, is the one id that it finds anything by.
	only string
}

func (s *service) Trail(_ context.Context, id string) ([]govern.Step, error) {
	if s.only != "" && s.only != id {
		return nil, s.err
	}
	return s.steps, s.err
}

func (s *service) DeadLetters(context.Context, govern.Filter) ([]govern.DeadLetter, error) {
	return s.letters, s.err
}
func (s *service) Audit(_ context.Context, after int64, _ int) ([]govern.AuditEntry, error) {
	return s.audit[min(int(after), len(s.audit)):], s.err
}

func step(id, stage string, seconds int) govern.Step {
	return govern.Step{EventID: id, Stage: stage, At: t0.Add(time.Duration(seconds) * time.Second)}
}

func TestAJourneyIsToldByEventAndTimeAcrossServices(t *testing.T) {
	order := &service{steps: []govern.Step{step("e1", govern.StagePublished, 1), step("e1", govern.StageAppended, 0), step("e2", govern.StageApplied, 4)}}
	stock := &service{steps: []govern.Step{step("e2", govern.StageAppended, 3), step("e1", govern.StageApplied, 3)}}
	j, err := govern.NewFederation(govern.Source{Name: "order", Store: order}, govern.Source{Name: "inventory", Store: stock}).Trail(t.Context(), "o-1")
	if err != nil {
		t.Fatal(err)
	}
	want := "order/e1/appended order/e1/published inventory/e1/applied inventory/e2/appended order/e2/applied"
	if got := tell(j); got != want {
		t.Errorf("the journey is\n%s, want\n%s", got, want)
	}
}

func TestAConsumerThatKnowsAnEventByItsIDOnlyIsAskedForIt(t *testing.T) {
	order := &service{steps: []govern.Step{step("e1", govern.StageAppended, 0)}, only: "trace-1"}
	stock := &service{steps: []govern.Step{step("e1", govern.StageApplied, 3), step("e9", govern.StageApplied, 4)}, only: "e1"}
	j, err := govern.NewFederation(govern.Source{Name: "order", Store: order}, govern.Source{Name: "inventory", Store: stock}).Trail(t.Context(), "trace-1")
	if err != nil {
		t.Fatal(err)
	}
	if got := tell(j); got != "order/e1/appended inventory/e1/applied" {
		t.Errorf("the journey is %s", got)
	}
}

func TestMissingEvidenceIsShownAndASilentServiceNamed(t *testing.T) {
	stock := &service{steps: []govern.Step{step("e1", govern.StageApplied, 3)}}
	down := &service{err: errors.New("no such file")}
	j, err := govern.NewFederation(govern.Source{Name: "order", Store: down}, govern.Source{Name: "inventory", Store: stock}).Trail(t.Context(), "o-1")
	if err != nil {
		t.Fatal(err)
	}
	if got := tell(j); got != "?/e1/missing inventory/e1/applied" || fmt.Sprint(j.Silent) != "[order]" {
		t.Errorf("the journey is %s, silent %v", got, j.Silent)
	}
	if _, err := govern.NewFederation(govern.Source{Name: "order", Store: down}).Trail(t.Context(), "o-1"); err == nil {
		t.Error("nobody answered, and that is no error")
	}
}

func TestAListOfDeadLettersIsWholeOrAnError(t *testing.T) {
	has := &service{letters: []govern.DeadLetter{{ID: 3}}}
	fed := govern.NewFederation(govern.Source{Name: "inventory", Store: has}, govern.Source{Name: "order", Store: &service{err: errors.New("locked")}})
	if _, err := fed.DeadLetters(t.Context(), govern.Filter{}); err == nil || !strings.Contains(err.Error(), "order") {
		t.Errorf("error is %v, want one that names order", err)
	}
	letters, err := govern.NewFederation(govern.Source{Name: "inventory", Store: has}).DeadLetters(t.Context(), govern.Filter{})
	if err != nil || len(letters) != 1 || letters[0].Service != "inventory" {
		t.Errorf("letters are %+v, %v", letters, err)
	}
}

func TestAnAuditChainTellsWhatWasChangedRemovedOrRewritten(t *testing.T) {
	chain := func() []govern.AuditEntry {
		var entries []govern.AuditEntry
		prev := ""
		for i := range 4 {
			e := govern.AuditEntry{Seq: int64(i + 1), At: t0, Actor: "alice", Action: "dlq.replay", Target: "inventory:e1", PrevHash: prev}
			e.Hash = e.Sum()
			prev = e.Hash
			entries = append(entries, e)
		}
		return entries
	}
	if err := govern.VerifyChain(t.Context(), &service{audit: chain()}); err != nil {
		t.Errorf("a sound chain: %v", err)
	}
	for name, spoil := range map[string]func([]govern.AuditEntry) []govern.AuditEntry{
		"an entry was changed":   func(c []govern.AuditEntry) []govern.AuditEntry { c[1].Actor = "mallory"; return c },
		"an entry was removed":   func(c []govern.AuditEntry) []govern.AuditEntry { return append(c[:1], c[2:]...) },
		"the first was removed":  func(c []govern.AuditEntry) []govern.AuditEntry { c[0].Seq = 2; return c },
		"an entry was re-hashed": func(c []govern.AuditEntry) []govern.AuditEntry { c[1].Reason = "x"; c[1].Hash = c[1].Sum(); return c },
	} {
		if err := govern.VerifyChain(t.Context(), &service{audit: spoil(chain())}); err == nil {
			t.Errorf("%s, and the chain passes", name)
		}
	}
}

func tell(j govern.Journey) string {
	var parts []string
	for _, s := range j.Steps {
		parts = append(parts, s.Service+"/"+s.EventID+"/"+s.Stage)
	}
	return strings.Join(parts, " ")
}

// lean is a service whose outbox is searched by event id only.
type lean struct {
	service
	err error
}

func (s *lean) Unsearched(context.Context) (bool, error) { return true, s.err }

func TestAnOutboxThatWasNotSearchedIsNamedUnlessAnEventWasAskedFor(t *testing.T) {
	order := &lean{service: service{steps: []govern.Step{step("e1", govern.StageAppended, 1)}, only: "e1"}}
	stock := &service{steps: []govern.Step{step("e1", govern.StageApplied, 3)}}
	fed := govern.NewFederation(govern.Source{Name: "order", Store: order}, govern.Source{Name: "inventory", Store: stock})
	j, err := fed.Trail(t.Context(), "o-1")
	if err != nil || tell(j) != "order/e1/appended inventory/e1/applied" || !slices.Equal(j.Unsearched, []string{"order"}) || len(j.Silent) > 0 {
		t.Errorf("by the order the journey is %s, not searched %v, silent %v, %v", tell(j), j.Unsearched, j.Silent, err)
	}
	if j, err := fed.Trail(t.Context(), "e1"); err != nil || len(j.Unsearched) > 0 {
		t.Errorf("by the event not searched are %v, %v", j.Unsearched, err)
	}
	order.err = errors.New("gone")
	if j, err := fed.Trail(t.Context(), "o-1"); err != nil || !slices.Equal(j.Silent, []string{"order"}) {
		t.Errorf("one that goes away before it says is not silent: %v, %v", j.Silent, err)
	}
}
