package adopt

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/settlemq/settle/store/migrate"
)

// ConsumeLog is what was decided about a consume log of another owner, to which
// foreign consumers of our groups write, as settle_shared_log keeps it.
type ConsumeLog struct {
	// Schema and Name of the table; where a server has databases only, Schema is
	// the table's.
	Schema string `json:"schema"`
	Name   string `json:"name"`
	// Columns are the types of those that are read or written, as they were.
	Columns map[string]string `json:"columns"`
	// Limits are how many characters the columns of text take; 0: any number.
	Limits map[string]int `json:"limits"`
	// Charsets are those of the columns of text, where columns have their own.
	Charsets map[string]string `json:"charsets,omitempty"`
	Zone     string            `json:"zone"`
	// Status gives the words of each kind; the first is the one written.
	Status map[string][]string `json:"status"`
}

// ConsumeEssentials are columns without which a table is no consume log.
func ConsumeEssentials() []string {
	return []string{"consumer_group", "message_id", "status", "consumed_at"}
}

// consumeKinds of status, in the order in which words are looked for.
func consumeKinds() []string {
	return []string{migrate.ConsumeSuccess, migrate.ConsumeProcessing, migrate.ConsumeFailed}
}

// usualConsumeWords are words that consume logs have for each kind of status.
func usualConsumeWords() map[string][]string {
	return map[string][]string{
		migrate.ConsumeSuccess:    {"SUCCESS", "CONSUMED", "DONE", "COMPLETED", "PROCESSED"},
		migrate.ConsumeProcessing: {"PROCESSING", "CONSUMING", "IN_PROGRESS"},
		migrate.ConsumeFailed:     {"FAILED", "FAIL", "ERROR"},
	}
}

// Word is what is written for a kind of status.
func (c *ConsumeLog) Word(kind string) string { return c.Status[kind][0] }

// Is reports whether a word means a kind of status.
func (c *ConsumeLog) Is(kind, word string) bool { return slices.Contains(c.Status[kind], word) }

// KindOf is what a word means; empty for nothing that is known.
func (c *ConsumeLog) KindOf(word string) string {
	for _, kind := range consumeKinds() {
		if c.Is(kind, word) {
			return kind
		}
	}
	return ""
}

// Holds reports whether a text fits into a column. What does not is in no row
// that a foreign consumer has written.
func (c *ConsumeLog) Holds(column, text string) bool {
	switch limit := c.Limits[column]; {
	case limit > 0 && utf8.RuneCountInString(text) > limit:
		return false
	case strings.HasSuffix(text, " ") && c.padded(column):
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool { return r > c.highest(column) })
}

// padded reports whether a column loses the spaces that a text ends with.
func (c *ConsumeLog) padded(column string) bool {
	return strings.HasPrefix(c.Columns[column], "char(") || strings.HasPrefix(c.Columns[column], "character(")
}

// highest is the last rune that a column surely holds.
func (c *ConsumeLog) highest(column string) rune {
	switch c.Charsets[column] {
	case "", "utf8mb4":
		return utf8.MaxRune
	case "utf8mb3", "utf8":
		return 0xFFFF
	}
	return unicode.MaxASCII
}

// Cut makes a text one that a column takes.
func (c *ConsumeLog) Cut(column, text string) string {
	if c.Holds(column, text) {
		return text
	}
	runes := []rune(text)
	if limit := c.Limits[column]; limit > 0 && len(runes) > limit {
		runes = runes[:limit]
	}
	for i := range runes {
		if runes[i] > c.highest(column) {
			runes[i] = '?'
		}
	}
	return strings.TrimRight(string(runes), " ")
}

// Classic reports whether the table has the columns of a consume log.
func (c *ConsumeLog) Classic() bool {
	return !slices.ContainsFunc(ConsumeEssentials(), func(name string) bool { return c.Columns[name] == "" })
}

// Column takes note of a column that the table has: how many characters it takes
// (0: any number), and whether a row must have a value there that nobody but who
// inserts it gives. It returns what is in the way; empty: nothing.
func (c *ConsumeLog) Column(name, typed string, limit int, needed bool, table string) string {
	if slices.Contains(ConsumeEssentials(), name) || name == "biz_key" {
		c.Columns[name], c.Limits[name] = typed, limit
		return ""
	}
	if needed {
		return fmt.Sprintf("column %s of %s must have a value, and Settle has none for it", name, table)
	}
	return ""
}

// Words decides what words mean: those given, or decided before, and the usual
// ones. found are those that the newest rows have, whose kinds it fills in. It
// returns what is in the way.
func (c *ConsumeLog) Words(given map[string][]string, found []migrate.AdoptStatus, table string) (reasons []string) {
	c.Status = usualConsumeWords()
	for kind, words := range given {
		// What a word is said to mean it does not mean otherwise.
		for other := range c.Status {
			c.Status[other] = slices.DeleteFunc(c.Status[other], func(w string) bool { return slices.Contains(words, w) })
		}
		c.Status[kind] = append(slices.Clone(words), c.Status[kind]...)
	}
	for i := range found {
		if found[i].Kind = c.KindOf(found[i].Word); found[i].Kind == "" {
			reasons = append(reasons, fmt.Sprintf("%s has rows with status %s; say what it means, for instance --consume-status success=%[2]s", table, found[i].Word))
		}
	}
	// Of the words in use the one that foreign consumers know is written.
	for _, kind := range consumeKinds() {
		if len(given[kind]) == 0 {
			slices.SortStableFunc(c.Status[kind], func(x, y string) int { return among(found, y) - among(found, x) })
		}
		if len(c.Status[kind]) == 0 {
			reasons = append(reasons, "no word is left that means "+kind+": --consume-status "+kind+"=…")
		}
	}
	return reasons
}

func among(found []migrate.AdoptStatus, word string) int {
	if slices.ContainsFunc(found, func(s migrate.AdoptStatus) bool { return s.Word == word }) {
		return 1
	}
	return 0
}

// Share decides what becomes of a consume log, of which reasons are in the way.
// One that nobody has named and that can't be shared is a note.
func (l *Look) Share(c *ConsumeLog, table string, named bool, reasons []string) bool {
	switch {
	case !c.Classic() && !named:
		return false
	case len(reasons) > 0 && named:
		l.Plan.Refusals = append(l.Plan.Refusals, reasons...)
		return false
	case len(reasons) > 0:
		l.Note("the consume log %s is not shared, so consumers of Settle must not run in groups that others consume in: %s", table, strings.Join(reasons, "; "))
		return false
	}
	l.Plan.ConsumeLog = table
	return true
}
