package broken

import (
	"context"

	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
)

// resending is a Governance whose Resend is changed.
type resending struct {
	govern.Store
	resend func(ctx context.Context, a govern.Act, eventIDs []string) ([]govern.Resent, error)
}

func (r resending) Resend(ctx context.Context, a govern.Act, eventIDs ...string) ([]govern.Resent, error) {
	return r.resend(ctx, a, eventIDs)
}

// resent breaks what comes of a resend.
func resent(change func(o *govern.Resent)) breaking {
	return func(s outboxStore) outboxStore {
		sound := s.Governance
		s.Governance = resending{sound, func(ctx context.Context, a govern.Act, eventIDs []string) ([]govern.Resent, error) {
			got, err := sound.Resend(ctx, a, eventIDs...)
			for i := range got {
				change(&got[i])
			}
			return got, err
		}}
		return s
	}
}

func brokenResends() map[string]breaking {
	return map[string]breaking{
		"a sent event is listed to be sent again under an id of its own, counted, audited and told by its trail": logged(func(b *brokenLog) {
			b.side = func(p *relay.SidePage) {
				for i := range p.Rows {
					p.Rows[i].MessageID = ""
				}
			}
		}),
		"what was not sent is not sent again, and the answer says what to do instead": resent(func(o *govern.Resent) { o.Result = "done" }),
		"an event whose row was deleted is not sent again, and the answer says so":    resent(func(o *govern.Resent) { o.Why = "" }),
		"an event that is to be sent again is not deleted before": func(s outboxStore) outboxStore {
			s.Governance = resending{s.Governance, func(_ context.Context, _ govern.Act, eventIDs []string) ([]govern.Resent, error) {
				return []govern.Resent{{EventID: eventIDs[0], Result: "done", MessageID: eventIDs[0] + "#1"}}, nil
			}}
			return s
		},
		"a resend without a reason, or by nobody, is refused": func(s outboxStore) outboxStore {
			sound := s.Governance
			s.Governance = resending{sound, func(ctx context.Context, _ govern.Act, eventIDs []string) ([]govern.Resent, error) {
				return sound.Resend(ctx, govern.Act{By: "somebody", Reason: "none"}, eventIDs...)
			}}
			return s
		},
	}
}
