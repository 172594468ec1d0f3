package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// The checkpoints that may hold an id are found by index: of each spread, those
// that end less than it above the id. Bounds are constants, since the server
// looks for no range whose ends come from another table.
const (
	sentNear = `SELECT %[1]d AS id, seq FROM t_outbox_checkpoint FORCE INDEX (i_outbox_checkpoint_spread)
WHERE spread = %[2]d AND last_id >= %[1]d AND last_id < %[1]d + %[3]d AND first_id <= %[1]d`

	sentThere = "SELECT f.id, g.topic, g.`partition`, g.`offset` + g.nth - 1, c.created_at + INTERVAL g.after_us MICROSECOND FROM (%s) f" + `
STRAIGHT_JOIN t_outbox_checkpoint c ON c.seq = f.seq STRAIGHT_JOIN JSON_TABLE(c.sent, '$[*]' COLUMNS (
 topic VARCHAR(191) PATH '$[0]', ` + "`partition` INT PATH '$[1]', `offset`" + ` BIGINT PATH '$[2]', after_us BIGINT PATH '$[3]', NESTED PATH '$[4][*]' COLUMNS (nth FOR ORDINALITY, id BIGINT PATH '$'))) g
WHERE g.id = f.id - c.first_id`
)

// maxSpread is the highest value of t_outbox_checkpoint.spread.
const maxSpread = 7

// soughtAtOnce is how many ids one statement looks for.
const soughtAtOnce = 25

// sentRow is where the broker has an event.
type sentRow struct {
	id        int64
	topic     stringColumn
	partition int
	offset    int64
	at        timeColumn
}

// eachSent calls do for each time that one of the ids was sent. What it costs
// does not depend on how many checkpoints there are.
func eachSent(ctx context.Context, q querier, ids []int64, do func(sentRow)) error {
	for some := range slices.Chunk(ids, soughtAtOnce) {
		var s sentRow
		err := each(ctx, q, []any{&s.id, &s.topic, &s.partition, &s.offset, &s.at}, func() { do(s) }, sentQuery(some))
		if err != nil {
			return err
		}
	}
	return nil
}

func sentQuery(ids []int64) string {
	var near []string
	for _, id := range ids {
		width := int64(1)
		for spread := range maxSpread + 1 {
			if width *= 16; spread == maxSpread {
				width = 1 << 60
			}
			near = append(near, fmt.Sprintf(sentNear, id, spread, width))
		}
	}
	return fmt.Sprintf(sentThere, strings.Join(near, "\nUNION ALL "))
}
