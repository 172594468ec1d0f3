package shop

import (
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/examples/shop/lifecycle"
	"github.com/settlemq/settle/govern"
)

// letters returns the inventory's dead letters in a state.
func (r *running) letters(t *testing.T, state string) []govern.DeadLetter {
	t.Helper()
	found, err := r.view.services.named("inventory").db.Governance.DeadLetters(t.Context(), govern.Filter{State: state})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestAnOrderOfAnArticleThatIsNeverStockedIsGivenUpByCompensation(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Roles = []string{RoleOrderAPI, RelayRole("order"), ConsumerRole("order"), RelayRole("inventory"), ConsumerRole("inventory")}
	r := start(t, memoryShop, cfg)
	r.place(t, "k1", Item{"never", 1})
	eventually(t, "a dead letter", func() bool { return len(r.letters(t, govern.StateOpen)) == 1 })
	store := r.view.services.named("inventory").db.Governance
	letter := r.letters(t, govern.StateOpen)[0]
	got, err := store.Compensate(t.Context(), govern.Act{By: "ann", Reason: "no longer made"}, letter.ID)
	if err != nil || len(got) != 1 || got[0].Result != "done" {
		t.Fatalf("compensate: %+v, %v", got, err)
	}
	eventually(t, "the order cancelled", func() bool { return r.with(t, lifecycle.Cancelled) == 1 })
	if d := r.letters(t, govern.StateCompensated); len(d) != 1 || d[0].ClosedBy != "ann" || d[0].ClosedAt == nil {
		t.Errorf("the letter is %+v; want it compensated, by ann", d)
	}
	id := OrderID("k1")
	eventually(t, "nothing waited for any more but the services that do not run", func() bool {
		_, body := r.get(t, "/orders/"+id)
		return strings.Contains(body, "order.created was published, payment has not taken it yet") && strings.Contains(body, `"reason":"no stock was reserved: reserving it was given up"`)
	})
	j, err := r.view.federation.Trail(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	told := ""
	for _, s := range j.Steps {
		told += s.EventType + " " + s.Stage + " " + s.Group + " " + s.By + " " + s.Note + "\n"
	}
	for _, want := range []string{
		"order.created compensate inventory ann no longer made\n",
		"order.created compensated inventory  by ann: no longer made\n",
		"inventory.reserve_failed applied order",
		"order.cancelled appended",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("the trail lacks %q:\n%s", want, told)
		}
	}
	if got, err := store.Replay(t.Context(), govern.Act{By: "bob"}, govern.ReplayOptions{}, letter.ID); err != nil || got[0].Result != "refused" {
		t.Errorf("a replay of what is given up: %+v, %v", got, err)
	}
	// The same event once more, from the broker, changes nothing.
	again := settle.Item{Attempt: 1, Record: settle.Record{Event: &settle.Event{ID: letter.EventID, Type: letter.EventType, AggregateID: id}, Key: id}}
	results, err := r.view.services.named("inventory").db.Inbox.Apply(t.Context(), settle.Work{Group: "inventory", Items: []settle.Item{again}}, nil)
	if err != nil || results[0].Verdict != settle.VerdictDuplicate {
		t.Errorf("delivered again it is %+v, %v", results, err)
	}
}
