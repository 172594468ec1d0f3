package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/settlemq/settle/store/migrate"
)

const (
	// One seek for each word, where an index begins with the status. A type that
	// lists its words is asked for those: its order is not that of the words.
	firstWord = `SELECT CAST(min(status) AS CHAR) FROM %s`
	nextWord  = `SELECT CAST(min(status) AS CHAR) FROM %s WHERE status > %s`
	scanWords = `SELECT DISTINCT CAST(status AS CHAR) FROM (SELECT status FROM %s ORDER BY id DESC LIMIT 1000000) newest WHERE status IS NOT NULL LIMIT 50`

	countWord = `SELECT count(*) FROM (SELECT 1 FROM %s WHERE status = %s LIMIT %d) c`

	// An index that queries do not see serves nobody.
	statusIndex  = `SELECT count(*) > 0 FROM information_schema.statistics WHERE table_schema = ? AND table_name = ? AND column_name = 'status' AND seq_in_index = 1 AND sub_part IS NULL AND %s`
	visibleIndex = `is_visible = 'YES'`
	heededIndex  = `ignored = 'NO'`
)

// mostWords is how many different words of a status are looked at.
const mostWords = 50

func (a *Adopt) statuses(ctx context.Context, l *adoptLook) error {
	d := l.adoption
	seen := visibleIndex
	if l.is.mariadb {
		seen = heededIndex
	}
	if err := l.db.QueryRowContext(ctx, fmt.Sprintf(statusIndex, seen), d.Schema, d.Name).Scan(&l.Plan.StatusIndex); err != nil {
		return err
	}
	if d.StatusIndex = l.Plan.StatusIndex; !d.StatusIndex {
		l.Note("no index begins with the status: rows that wait are looked for in the whole table now, and are not found if their status is set back later; CREATE INDEX … ON %s (status, id)", l.Plan.Table)
	}
	labels := enumLabels(d.Columns["status"])
	words, err := statusWords(ctx, l.db, d)
	if err != nil {
		return err
	}
	l.Words(words, labels)
	if a.writable(l); l.Refused() {
		return nil
	}
	for _, word := range words {
		var rows int64
		if err := l.db.QueryRowContext(ctx, fmt.Sprintf(countWord, d.table(), d.wordLiteral(word), migrate.CountLimit)).Scan(&rows); err != nil {
			return err
		}
		if rows > 0 {
			l.Rows(word, rows)
		}
	}
	return nil
}

// statusWords are the words that are in the table, or that its type allows.
func statusWords(ctx context.Context, db querier, d *adoption) (words []string, err error) {
	switch labels := enumLabels(d.Columns["status"]); {
	case len(labels) > 0:
		return labels, nil
	case !d.StatusIndex:
		var word string
		err = each(ctx, db, []any{&word}, func() { words = append(words, word) }, fmt.Sprintf(scanWords, d.table()))
		return words, err
	}
	query := fmt.Sprintf(firstWord, d.table())
	for len(words) < mostWords {
		var word sql.NullString
		if err := db.QueryRowContext(ctx, query).Scan(&word); err != nil || !word.Valid {
			return words, err
		}
		words = append(words, word.String)
		query = fmt.Sprintf(nextWord, d.table(), d.wordLiteral(word.String))
	}
	return words, nil
}

// writable refuses words that the column of the status can't hold.
func (a *Adopt) writable(l *adoptLook) {
	typed := l.adoption.Columns["status"]
	width := columnWidth(typed)
	for kind, words := range l.adoption.Status {
		for _, word := range words {
			if _, err := strconv.ParseInt(word, 10, 64); numeric(typed) && err != nil {
				l.Refuse("status %s=%s: the column is a number; say which it is: --status %[1]s=0", kind, word)
			}
			if !numeric(typed) && width > 0 && len([]rune(word)) > width {
				l.Refuse("status %s=%s: the column has %d characters", kind, word, width)
			}
		}
	}
}

// columnWidth is how many characters a column takes; 0 if its type does not say.
func columnWidth(typed string) int {
	base := baseType(typed)
	if base != "varchar" && base != "char" {
		return 0
	}
	_, inside, _ := strings.Cut(typed, "(")
	inside, _, _ = strings.Cut(inside, ")")
	n, _ := strconv.Atoi(inside)
	return n
}

// enumLabels are the words of an enumerated type; none of another.
func enumLabels(typed string) (labels []string) {
	inside, is := strings.CutPrefix(typed, "enum(")
	if !is {
		return nil
	}
	for rest := inside; strings.HasPrefix(rest, "'"); {
		rest = rest[1:]
		end := strings.IndexByte(strings.ReplaceAll(rest, "''", "  "), '\'')
		if end < 0 {
			return labels
		}
		labels = append(labels, strings.ReplaceAll(rest[:end], "''", "'"))
		rest = strings.TrimPrefix(rest[end+1:], ",")
	}
	return labels
}
