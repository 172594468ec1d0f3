package txmsg

import (
	"strings"
	"time"
)

// TransactionID is an id of a database's transaction: fresh is the part that is
// its own.
func TransactionID(scope, fresh string) string { return scope + "." + fresh }

func (m *Machine) own(id string) bool { return strings.HasPrefix(id, m.scope+".") }

// checked takes in a question. What does not fit is left to the broker, which
// asks again.
func (m *Machine) checked(now time.Time, c Check) {
	m.stats.Checks++
	if m.inHand[string(c.Handle)] || len(m.waiting) >= maxWaiting {
		m.stats.Left++
		return
	}
	if len(m.waiting) == 0 && m.judging == 0 {
		m.fill(now)
	}
	m.inHand[string(c.Handle)] = true
	m.waiting = append(m.waiting, c)
}

// cost is the time that one question of the database is worth.
func (m *Machine) cost() time.Duration {
	return time.Second / time.Duration(m.cfg.ChecksPerSecond)
}

// fill adds what time has brought to the right to ask.
func (m *Machine) fill(now time.Time) {
	if passed := now.Sub(m.filled); passed > 0 {
		m.tokens = min(m.tokens+float64(passed)/float64(m.cost()), float64(m.cfg.ChecksAtOnce))
	}
	m.filled = now
}

// judge asks the database about checks that wait, as fast as that may be. A check
// of another database or program is answered UNKNOWN: who can answer it is asked
// another time.
func (m *Machine) judge(now time.Time, do []Command) []Command {
	if len(m.waiting) == 0 {
		return do
	}
	m.fill(now)
	for len(m.waiting) > 0 && m.judging < m.cfg.ChecksAtOnce && m.tokens >= 1 {
		c := m.waiting[0]
		m.waiting = m.waiting[1:]
		m.tokens--
		m.judging++
		if !m.own(c.ID) {
			m.stats.Foreign++
			m.note(now, c, "it is of another database, or of another program in this group of producers")
			do = append(do, Answer{c, Unknown})
			continue
		}
		do = append(do, Judge{c, m.inquiry(c, "")})
	}
	return do
}

func (m *Machine) inquiry(c Check, cause string) Inquiry {
	return Inquiry{
		ID: c.ID, EventID: c.EventID, EventType: c.EventType, Key: c.Key, Topic: c.Topic, Times: c.Times,
		ByBroker: true, Owner: m.owner, Cause: cause,
	}
}

// judged answers with what the row says, and only with that.
func (m *Machine) judged(now time.Time, in Judged) []Command {
	m.tell(workJudge, in.Err)
	v := in.Verdict
	if in.Err != nil {
		v = Unknown
	}
	if v == Unknown {
		m.note(now, in.Check, causeOf(in.Err))
	}
	return append([]Command{Answer{in.Check, v}}, m.decide(now)...)
}

func causeOf(err error) string {
	if err == nil {
		return "its local transaction has not ended"
	}
	return err.Error()
}

// note keeps an answer that no row decides.
func (m *Machine) note(now time.Time, c Check, cause string) {
	if len(m.answers.items) >= maxAnswers {
		m.stats.Unrecorded++
		return
	}
	m.answers.add(now, Answered{Inquiry: m.inquiry(c, cause), Verdict: Unknown, At: now}, noteWait)
}

// replied ends a check.
func (m *Machine) replied(now time.Time, in Replied) {
	m.judging--
	delete(m.inHand, string(in.Check.Handle))
	m.tell(workAnswer, in.Err)
	if in.Err != nil {
		m.stats.Unheard++
		return
	}
	switch in.Verdict {
	case Commit:
		m.stats.CheckedCommit++
		m.confirm(now, in.Check.ID)
	case Rollback:
		m.stats.CheckedRollback++
	case Unknown:
		if m.own(in.Check.ID) {
			m.stats.CheckedUnknown++
		}
	}
}
