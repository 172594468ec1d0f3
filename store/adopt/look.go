package adopt

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/migrate"
)

// Look is what is found of a table, and what follows from it.
type Look struct {
	Config migrate.AdoptConfig
	Plan   migrate.AdoptPlan
	// Outbox is what is decided now, Before what was decided earlier; nil for
	// nothing. Done is whether that was carried out.
	Outbox, Before *Outbox
	Done           bool
}

// Refuse takes note of what keeps the table from being adopted.
func (l *Look) Refuse(format string, args ...any) {
	l.Plan.Refusals = append(l.Plan.Refusals, fmt.Sprintf(format, args...))
}

// Note takes note of what a person should know.
func (l *Look) Note(format string, args ...any) {
	l.Plan.Notes = append(l.Plan.Notes, fmt.Sprintf(format, args...))
}

// Refused reports whether anything is in the way so far.
func (l *Look) Refused() bool { return len(l.Plan.Refusals) > 0 }

// Err makes one error of all that is in the way; nil for nothing.
func (l *Look) Err() error {
	if !l.Refused() {
		return nil
	}
	return fmt.Errorf("adopt %s: %s: %w", cmp.Or(l.Plan.Table, l.Plan.ConsumeLog), strings.Join(l.Plan.Refusals, "; "), migrate.ErrNotAdoptable)
}

// Essentials are columns without which a row is no event.
func Essentials() []string {
	return []string{"id", "event_id", "event_type", "aggregate_id", "payload", "status", "created_at"}
}

// Optionals are columns that are read or written where they are.
func Optionals() []string {
	return []string{"aggregate_type", "headers", "retry_count", "next_retry_time", "last_error", "updated_at"}
}

// Decide takes over what was said of the table, or decided before: whether its
// status is written.
func (l *Look) Decide() {
	project := l.Config.Project
	if project == nil && l.Before != nil {
		project = &l.Before.Project
	}
	l.Outbox.Project = project == nil || *project
	l.Plan.Project = l.Outbox.Project
}

// Column takes note of a column that the table has.
func (l *Look) Column(name, typed string) {
	c := migrate.AdoptColumn{Name: name, Type: typed, Read: "left alone: the owner's"}
	if slices.Contains(Essentials(), name) || slices.Contains(Optionals(), name) {
		l.Outbox.Columns[name] = typed
		c.Read = "read"
	}
	l.Plan.Columns = append(l.Plan.Columns, c)
}

// Columns refuses a table that lacks columns, or has some that can't be read as
// what they are to be.
func (l *Look) Columns(readable func(name, typed string) bool) {
	for _, name := range Essentials() {
		if !l.Outbox.Has(name) {
			l.Refuse("%s has no column %s", l.Plan.Table, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.Outbox.Columns)) {
		if typed := l.Outbox.Columns[name]; !readable(name, typed) {
			l.Refuse("column %s of %s is %s, which can't be read as that", name, l.Plan.Table, typed)
		}
	}
	slices.Sort(l.Plan.Refusals)
}

// Topics decides where events go.
func (l *Look) Topics() {
	d := l.Outbox
	d.Topic, d.TopicOf = l.Config.Topic, l.Config.TopicOf
	if l.Before != nil {
		d.Topic = cmp.Or(d.Topic, l.Before.Topic)
		if len(d.TopicOf) == 0 {
			d.TopicOf = l.Before.TopicOf
		}
	}
	d.Topic = cmp.Or(d.Topic, settle.DefaultTopic)
	l.Plan.Topics = []string{d.Topic}
	for _, name := range slices.Sorted(maps.Keys(d.TopicOf)) {
		l.Plan.Topics = append(l.Plan.Topics, d.TopicOf[name]+" for "+name)
	}
	if len(d.TopicOf) > 0 {
		l.Note("events of one aggregate that go to several topics have no order among them")
	}
}

// IDs decides by the newest ids, in order, whether they are taken in blocks of
// more than one: the order per key rests on it.
func (l *Look) IDs(source string, newest []int64, block int64) {
	l.Plan.IDs = source
	if n := len(newest); n > 0 {
		l.Plan.HighestID = newest[n-1]
		if newest[0] <= 0 {
			l.Refuse("%s has ids that are not above 0", l.Plan.Table)
		}
	}
	if block > 1 {
		l.Plan.IDs += fmt.Sprintf(", in blocks of %d", block)
		l.Note("ids are taken in blocks: rows are stored below the ids of earlier ones, so the order per key can't be promised (allocationSize = 1, or IDENTITY)")
	}
}

// Leave counts the rows that stay as they are, and ends the look.
func (l *Look) Leave() {
	for _, s := range l.Plan.Statuses {
		if s.Kind != migrate.StatusPending && s.Kind != migrate.StatusRetry {
			l.Plan.Leave += s.Rows
		}
		if s.Kind == migrate.StatusInFlight && s.Rows > 0 {
			l.Note("%d rows are %s: another relay has them in hand, or died with them; they are left until their status says that they wait", s.Rows, s.Word)
		}
	}
}

// Changes lists what differs from what was decided before.
func (l *Look) Changes() {
	if l.Before == nil || !l.Plan.Adopted {
		return
	}
	b, d := l.Before, l.Outbox
	for _, c := range []struct{ what, was, is string }{
		{"zone", b.Zone, d.Zone}, {"payload", b.Payload, d.Payload}, {"topic", b.Topic, d.Topic},
		{"topics", fmt.Sprint(b.TopicOf), fmt.Sprint(d.TopicOf)}, {"statuses", fmt.Sprint(b.Status), fmt.Sprint(d.Status)},
		{"projection", strconv.FormatBool(b.Project), strconv.FormatBool(d.Project)}, {"columns", differing(b.Columns, d.Columns), differing(d.Columns, b.Columns)},
		{"index on status", strconv.FormatBool(b.StatusIndex), strconv.FormatBool(d.StatusIndex)},
	} {
		if c.was != c.is {
			l.Plan.Changes = append(l.Plan.Changes, fmt.Sprintf("%s: %s is now %s", c.what, c.was, c.is))
		}
	}
}

// differing lists the columns of a that b has not, or of another type.
func differing(a, b map[string]string) string {
	var columns []string
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if a[name] != b[name] {
			columns = append(columns, name+" "+a[name])
		}
	}
	return cmp.Or(strings.Join(columns, ", "), "none")
}
