package adopted

import (
	"strconv"
	"strings"
	"time"
)

// Dialect is how a kind of database writes the SQL of a service.
type Dialect struct {
	// Outbox and ConsumeLog make the tables that tutorials teach and services
	// have, t_outbox_event and t_message_consume_log, and Effects t_effect, with
	// an id that counts up and a row_id.
	Outbox, ConsumeLog, Effects []string
	// OutboxWithoutIndex makes t_outbox_event with no index that begins with the status.
	OutboxWithoutIndex []string
	// Empty empties the outbox and lets its ids begin again. Behind returns what has
	// it go on behind an id that a program has chosen; "" where it does by itself.
	Empty  string
	Behind func(id int) string
	// Holes leaves some of its ids out.
	Holes []string
	// Later is the time of a session that much from now.
	Later func(d time.Duration) string
	// Once makes an INSERT one that leaves a row alone that is there already.
	Once func(insert string) string
	// Again reports whether a program tries its transaction again after err.
	Again func(err error) bool
	// Dollars writes parameters as $1, $2, … instead of ?. Defaults to false.
	Dollars bool
}

// sql returns a query, written with ?, as the database wants it.
func (d *Dialect) sql(query string) string {
	if !d.Dollars {
		return query
	}
	var out strings.Builder
	n := 0
	for _, c := range query {
		if c != '?' {
			out.WriteRune(c)
			continue
		}
		n++
		out.WriteString("$" + strconv.Itoa(n))
	}
	return out.String()
}

// shanghai is eight hours east, all the year.
var shanghai = time.FixedZone("Asia/Shanghai", 8*60*60)

// stamp is an instant as a column of time without a zone takes it.
func stamp(at time.Time, zone *time.Location) string {
	return at.In(zone).Format("2006-01-02 15:04:05.000000")
}
