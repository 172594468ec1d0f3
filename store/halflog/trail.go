package halflog

import (
	"fmt"
	"strings"
	"time"

	"github.com/settlemq/settle/govern"
)

// Row is a record as a trail tells of it.
type Row struct {
	TxID, State, EventID, EventType, Key, TraceID, Topic, Handle, Cause string
	RecordedAt, EndedAt, DueAt                                          time.Time
	Tries                                                               int
}

// Asked are the checks of one transaction with one answer.
type Asked struct {
	TxID, EventID, EventType, Key, By, Answer, Cause, Owner string
	Count                                                   int
	First, Last                                             time.Time
}

// Steps tells the way of half messages: what was kept back, what the local
// transaction made of it, how often somebody asked, and what the broker did.
func Steps(rows []Row, asked []Asked) (steps []govern.Step) {
	known := map[string]bool{}
	for i := range rows {
		known[rows[i].TxID] = true
		steps = append(steps, stepsOf(&rows[i])...)
	}
	for i := range asked {
		a := &asked[i]
		s := govern.Step{EventID: a.EventID, EventType: a.EventType, Key: a.Key}
		if !known[a.TxID] {
			known[a.TxID] = true
			half := s
			half.At, half.Stage = a.First, govern.StageHalf
			half.Note = "transaction " + a.TxID + ": the broker keeps it back and asks; no record says yet what becomes of it"
			steps = append(steps, half)
		}
		if a.By != "broker" {
			continue
		}
		s.At, s.Stage, s.Attempts, s.By = a.Last, govern.StageChecked, a.Count, a.Owner
		s.Note = "transaction " + a.TxID + ": answered " + a.Answer
		if a.Cause != "" {
			s.Note += ": " + a.Cause
		}
		steps = append(steps, s)
	}
	return steps
}

func stepsOf(r *Row) []govern.Step {
	s := govern.Step{At: r.RecordedAt, EventID: r.EventID, EventType: r.EventType, Key: r.Key, TraceID: r.TraceID}
	of := "transaction " + r.TxID
	if r.State == StateRolledBack {
		s.Stage, s.Note = govern.StageRolledBack, strings.TrimSuffix(of+": "+r.Cause, ": ")
		return []govern.Step{s}
	}
	half, committed := s, s
	half.Stage, half.Note = govern.StageHalf, fmt.Sprintf("%s for topic %s, kept back as %s", of, r.Topic, r.Handle)
	committed.Stage, committed.Attempts = govern.StageCommitted, r.Tries
	committed.Note = of
	if r.State == StateCommitted {
		committed.Note += ": the broker has not confirmed it"
		if r.Cause != "" {
			committed.Note += ": " + r.Cause
		}
		if !r.DueAt.IsZero() {
			committed.NextAt = &r.DueAt
		}
	}
	steps := []govern.Step{half, committed}
	if r.State == StateConfirmed {
		s.At, s.Stage, s.Note = r.EndedAt, govern.StageConfirmed, of+": the broker delivers it"
		steps = append(steps, s)
	}
	return steps
}
