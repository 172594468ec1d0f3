package adopt

import (
	"slices"
	"strings"

	"github.com/settlemq/settle/store/migrate"
)

// usualWords are words that tables have for each kind of status. FAILED is none
// of them: some retry what failed, others have given it up.
func usualWords() map[string][]string {
	return map[string][]string{
		migrate.StatusPending:  {"PENDING", "NEW", "INIT", "CREATED", "UNSENT", "READY", "WAITING"},
		migrate.StatusRetry:    {"RETRY", "RETRYING", "RETRY_PENDING"},
		migrate.StatusInFlight: {"SENDING", "IN_FLIGHT", "PROCESSING", "PUBLISHING", "LOCKED", "CLAIMED"},
		migrate.StatusSent:     {"SENT", "PUBLISHED", "DONE", "SUCCESS", "COMPLETED", "PROCESSED", "DELIVERED", "SENT_OK"},
		migrate.StatusDead:     {"DEAD", "DEAD_LETTER", "DEADLETTER", "GIVEN_UP", "ABANDONED"},
	}
}

// Words decides what the words of the status mean that were seen in rows, and
// those that its type allows besides.
func (l *Look) Words(seen, labels []string) {
	l.Outbox.Status = l.meanings(append(slices.Clone(seen), labels...))
	for _, kind := range kinds() {
		for _, word := range l.Outbox.Status[kind] {
			if len(labels) > 0 && !slices.Contains(labels, word) {
				l.Refuse("status %s=%s: the type of the column has no such word", kind, word)
			}
		}
	}
}

// Rows takes note of how many rows have a word as their status.
func (l *Look) Rows(word string, rows int64) {
	s := migrate.AdoptStatus{Word: word, Kind: l.Outbox.KindOf(word), Rows: rows}
	l.Plan.Statuses = append(l.Plan.Statuses, s)
	if waits := s.Kind == migrate.StatusPending || s.Kind == migrate.StatusRetry; waits && l.meansSent(word) {
		l.Refuse("status %s=%s would send %d rows once more that were sent, as the word says; the words for rows that wait are others", s.Kind, word, s.Rows)
	}
	if s.Kind == "" {
		l.Refuse("status %q of %d rows has no meaning that is known; say which: --status retry=%[1]s, --status dead=%[1]s, --status sent=%[1]s …", word, s.Rows)
	}
}

// meansSent reports whether a word stands for rows that were sent, as people
// use it or as was decided before.
func (l *Look) meansSent(word string) bool {
	return slices.Contains(usualWords()[migrate.StatusSent], strings.ToUpper(word)) || slices.Contains(l.statusBefore()[migrate.StatusSent], word)
}

// meanings are the words of each kind: those given, those decided before, and
// the usual ones that were seen. A word that was not seen and not given is not
// written: the owner's program may not know it.
func (l *Look) meanings(seen []string) map[string][]string {
	m := map[string][]string{}
	given := l.Config.Status
	taken := map[string]bool{}
	for _, from := range []map[string][]string{given, l.statusBefore()} {
		for _, kind := range kinds() {
			for _, word := range from[kind] {
				if !taken[word] && (len(given[kind]) == 0 || slices.Contains(given[kind], word)) {
					taken[word] = true
					m[kind] = append(m[kind], word)
				}
			}
		}
	}
	for _, kind := range kinds() {
		for _, word := range seen {
			if !taken[word] && slices.Contains(usualWords()[kind], strings.ToUpper(word)) {
				taken[word] = true
				m[kind] = append(m[kind], word)
			}
		}
	}
	for _, kind := range []string{migrate.StatusPending, migrate.StatusSent} {
		if word := usualWords()[kind][0]; len(m[kind]) == 0 && !taken[word] {
			m[kind] = []string{word}
		}
	}
	return m
}

func (l *Look) statusBefore() map[string][]string {
	if l.Before == nil {
		return nil
	}
	return l.Before.Status
}
