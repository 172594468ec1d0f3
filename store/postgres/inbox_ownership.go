package postgres

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
)

// ownership keeps the work of an owner out that has been replaced.
type ownership struct {
	w     *settle.Work
	found map[place]standing
}

type place struct {
	topic  string
	number int
}

// standing is who has a partition, and how far it is done.
type standing struct {
	owner, generation string
	epoch, position   int64
}

func newOwnership(w *settle.Work) *ownership { return &ownership{w: w, found: map[place]standing{}} }

// The rows are locked in one order, and as the move of the floor will lock them.
const readOwnership = `SELECT p.topic, p.number, p.owner, p.epoch, p.generation, p.position FROM t_consume_partition p
WHERE p.consumer_group = $1 AND (p.topic, p.number) IN (SELECT * FROM unnest($2::text[], $3::integer[]))
ORDER BY p.topic, p.number FOR NO KEY UPDATE`

func (o *ownership) queue(b *pgx.Batch) {
	if len(o.w.Floors) == 0 {
		return
	}
	var topics []string
	var numbers []int32
	for i := range o.w.Floors {
		p := &o.w.Floors[i].Partition
		topics, numbers = append(topics, p.Topic), append(numbers, int32(p.Number))
	}
	b.Queue(readOwnership, o.w.Group, topics, numbers).Query(func(rows pgx.Rows) error {
		var at place
		var s standing
		_, err := pgx.ForEachRow(rows, []any{&at.topic, &at.number, &s.owner, &s.epoch, &s.generation, &s.position}, func() error {
			o.found[at] = s
			return nil
		})
		return err
	})
}

// check refuses an owner that has been replaced, and a stream that is not the
// one of the floor.
func (o *ownership) check() error {
	for i := range o.w.Floors {
		move := &o.w.Floors[i]
		p := &move.Partition
		s, ok := o.found[place{p.Topic, p.Number}]
		switch {
		case !ok || s.owner != p.Owner || s.epoch != p.Epoch:
			return fmt.Errorf("partition %d of %s: %w", p.Number, p.Topic, settle.ErrFenced)
		case s.generation != "" && s.generation != move.To.Generation:
			return fmt.Errorf("partition %d of %s was read up to %d of %s, now it is %s: %w",
				p.Number, p.Topic, s.position, s.generation, move.To.Generation, settle.ErrNewGeneration)
		}
	}
	return nil
}

const moveFloor = `UPDATE t_consume_partition SET position = $1, event_id = $2, generation = $3
WHERE consumer_group = $4 AND topic = $5 AND number = $6 AND owner = $7 AND epoch = $8 AND position < $1`

// raise moves a floor that the fence has let pass. A floor never goes back.
// An event id that no text holds is left out: it would be taken for another.
func raise(b *pgx.Batch, group string, m settle.FloorMove) {
	event := m.To.EventID
	if clean(event) != event {
		event = ""
	}
	b.Queue(moveFloor, m.To.Position, event, m.To.Generation,
		group, m.Partition.Topic, m.Partition.Number, m.Partition.Owner, m.Partition.Epoch)
}
