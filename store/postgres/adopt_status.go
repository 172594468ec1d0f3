package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

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

func statusKinds() []string {
	return []string{migrate.StatusPending, migrate.StatusRetry, migrate.StatusInFlight, migrate.StatusSent, migrate.StatusDead}
}

const (
	// One seek for each word, where an index begins with the status.
	seekWords = `WITH RECURSIVE w(word) AS (
 (SELECT status FROM %[1]s ORDER BY status LIMIT 1) UNION ALL
 SELECT (SELECT status FROM %[1]s WHERE status > w.word ORDER BY status LIMIT 1) FROM w WHERE w.word IS NOT NULL)
SELECT word::text FROM w WHERE word IS NOT NULL LIMIT 50`
	scanWords = `SELECT DISTINCT status::text FROM (SELECT status FROM %[1]s ORDER BY id DESC LIMIT 1000000) newest LIMIT 50`

	countWord = `SELECT count(*) FROM (SELECT FROM %s WHERE status = %s LIMIT %d) c`

	hasStatusIndex = `SELECT EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = to_regclass($1) AND i.indisvalid AND i.indpred IS NULL AND a.attname = 'status')`

	// The labels of an enumerated type; empty for another type.
	statusLabels = `SELECT coalesce(array_agg(e.enumlabel::text), '{}') FROM pg_attribute a JOIN pg_enum e ON e.enumtypid = a.atttypid
WHERE a.attrelid = to_regclass($1) AND a.attname = 'status'`
)

func (a *Adopt) statuses(ctx context.Context, l *adoptLook) error {
	table := l.adoption.table()
	var labels []string
	if err := l.conn.QueryRow(ctx, statusLabels, table).Scan(&labels); err != nil {
		return err
	}
	if err := l.conn.QueryRow(ctx, hasStatusIndex, table).Scan(&l.plan.StatusIndex); err != nil {
		return err
	}
	l.adoption.StatusIndex = l.plan.StatusIndex
	query := scanWords
	if l.plan.StatusIndex {
		query = seekWords
	} else {
		l.note("no index begins with the status: rows that wait are looked for in the whole table now, and are not found if their status is set back later; CREATE INDEX CONCURRENTLY ON %s (status, id)", l.plan.Table)
	}
	rows, err := l.conn.Query(ctx, fmt.Sprintf(query, table))
	if err != nil {
		return err
	}
	words, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	l.adoption.Status = a.meanings(l, append(slices.Clone(words), labels...))
	for _, word := range words {
		s := migrate.AdoptStatus{Word: word, Kind: l.adoption.KindOf(word)}
		if err := l.conn.QueryRow(ctx, fmt.Sprintf(countWord, table, literal(word), migrate.CountLimit)).Scan(&s.Rows); err != nil {
			return err
		}
		l.plan.Statuses = append(l.plan.Statuses, s)
		if waits := s.Kind == migrate.StatusPending || s.Kind == migrate.StatusRetry; waits && meansSent(word, l.before) {
			l.refuse("status %s=%s would send %d rows once more that were sent, as the word says; the words for rows that wait are others", s.Kind, word, s.Rows)
		}
		if s.Kind == "" {
			l.refuse("status %q of %d rows has no meaning that is known; say which: --status retry=%[1]s, --status dead=%[1]s, --status sent=%[1]s …", word, s.Rows)
		}
	}
	for kind, given := range l.adoption.Status {
		for _, word := range given {
			if len(labels) > 0 && !slices.Contains(labels, word) {
				l.refuse("status %s=%s: the type of the column has no such word", kind, word)
			}
		}
	}
	return nil
}

// meansSent reports whether a word stands for rows that were sent, as people
// use it or as was decided before.
func meansSent(word string, before *adoption) bool {
	return slices.Contains(usualWords()[migrate.StatusSent], strings.ToUpper(word)) || slices.Contains(statusOf(before)[migrate.StatusSent], word)
}

// meanings are the words of each kind: those given, those decided before, and
// the usual ones that were seen. A word that was not seen and not given is not
// written: the owner's program may not know it.
func (a *Adopt) meanings(l *adoptLook, seen []string) map[string][]string {
	m := map[string][]string{}
	taken := map[string]bool{}
	for _, from := range []map[string][]string{a.cfg.Status, statusOf(l.before)} {
		for _, kind := range statusKinds() {
			for _, word := range from[kind] {
				if !taken[word] && (len(a.cfg.Status[kind]) == 0 || slices.Contains(a.cfg.Status[kind], word)) {
					taken[word] = true
					m[kind] = append(m[kind], word)
				}
			}
		}
	}
	for _, kind := range statusKinds() {
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

func statusOf(before *adoption) map[string][]string {
	if before == nil {
		return nil
	}
	return before.Status
}

const newestPayloads = `SELECT event_id::text, %s FROM %s e ORDER BY id DESC LIMIT 20`

// payload decides by the newest rows: a whole envelope names its own event.
func (a *Adopt) payload(ctx context.Context, l *adoptLook) error {
	want := a.cfg.Payload
	if l.before != nil {
		want = cmp.Or(want, l.before.Payload)
	}
	rows, err := l.conn.Query(ctx, fmt.Sprintf(newestPayloads, l.adoption.bytes(), l.adoption.table()))
	if err != nil {
		return err
	}
	var id string
	var payload []byte
	whole, all := 0, 0
	_, err = pgx.ForEachRow(rows, []any{&id, &payload}, func() error {
		var named struct {
			EventID string `json:"eventId"`
		}
		if all++; json.Unmarshal(payload, &named) == nil && named.EventID == id {
			whole++
		}
		return nil
	})
	if err != nil {
		return err
	}
	found := migrate.PayloadBody
	if whole*2 > all || all == 0 {
		found = migrate.PayloadEnvelope
	}
	switch {
	case want == "" && all > 0 && whole != 0 && whole != all:
		l.refuse("of the %d newest payloads %d are whole envelopes; say what they are: --payload envelope or --payload body", all, whole)
	case want == "" && all == 0:
		l.note("there is no row yet that shows whether payloads are whole envelopes: they are taken for that; --payload body says that they are not")
	case want == migrate.PayloadEnvelope && all > 0 && whole == 0:
		l.note("none of the %d newest payloads is an envelope that names its own event", all)
	}
	l.adoption.Payload = cmp.Or(want, found)
	l.plan.Payload = l.adoption.Payload
	if l.adoption.Columns["payload"] == "jsonb" {
		l.note("jsonb: consumers get the payload as the database writes it (keys sorted, spaces set), as they do now")
	}
	return nil
}
