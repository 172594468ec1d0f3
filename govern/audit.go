package govern

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// ErrNotFound is returned for an id that is not there.
var ErrNotFound = errors.New("not found")

// AuditEntry is one act of a person. Entries form a chain: Hash covers
// PrevHash and every field, Seq has no gap.
type AuditEntry struct {
	Seq      int64     `json:"seq"`
	At       time.Time `json:"at"`
	Actor    string    `json:"actor"`
	Action   string    `json:"action"` // dlq.replay, dlq.compensate, dlq.discard, control.pause, control.resume, control.skip, outbox.resend, outbox.restart
	Target   string    `json:"target"` // group:event id, or what was paused
	Reason   string    `json:"reason,omitempty"`
	PrevHash string    `json:"prev_hash"`
	Hash     string    `json:"hash"`
}

// Sum returns the hash that e must carry. Fields are length-prefixed, so that
// no two entries have the same input.
func (e AuditEntry) Sum() string {
	h := sha256.New()
	for _, f := range []string{
		e.PrevHash, strconv.FormatInt(e.Seq, 10), strconv.FormatInt(e.At.UnixMicro(), 10),
		e.Actor, e.Action, e.Target, e.Reason,
	} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(f), f)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Audits reads the audit chain of one service.
type Audits interface {
	// Audit returns entries with Seq above after, at most limit.
	Audit(ctx context.Context, after int64, limit int) ([]AuditEntry, error)
}

// VerifyChain walks the whole chain and returns the first entry that does not
// follow from its predecessor, as an error naming it.
func VerifyChain(ctx context.Context, a Audits) error {
	var prev AuditEntry
	for {
		page, err := a.Audit(ctx, prev.Seq, 1000)
		if err != nil {
			return fmt.Errorf("read audit chain: %w", err)
		}
		if len(page) == 0 {
			return nil
		}
		for _, e := range page {
			switch {
			case e.Seq != prev.Seq+1:
				return fmt.Errorf("audit chain: entry %d is missing", prev.Seq+1)
			case e.PrevHash != prev.Hash:
				return fmt.Errorf("audit chain: entry %d does not follow entry %d", e.Seq, prev.Seq)
			case e.Hash != e.Sum():
				return fmt.Errorf("audit chain: entry %d was changed", e.Seq)
			}
			prev = e
		}
	}
}
