package main

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pglogrepl"

	"github.com/settlemq/settle"
)

// replicationToKafka is the minimal reader of logical replication with raw
// franz-go behind it: events go out in a window that slides, and the slot is
// told of what was acknowledged, without a wait for it.
func replicationToKafka() contender {
	l := replication().layout
	return contender{name: kafkaName + "-replication", title: "logical replication (pgoutput) and raw franz-go", layout: l, share: 2, carry: func(ctx context.Context, c conditions) error {
		p, err := newKafkaClient(c.broker)
		if err != nil {
			return err
		}
		defer p.close()
		chunks := []*chunk{{}}
		err = follow(ctx, c, &follower{
			take: func(_ context.Context, e *settle.Event) error {
				open := chunks[len(chunks)-1]
				open.left.Add(1)
				return p.publish(messageOf(e), func(id string) error {
					open.left.Add(-1)
					return c.out.acknowledged(id)
				})
			},
			settled: func(end pglogrepl.LSN) (at pglogrepl.LSN) {
				chunks[len(chunks)-1].end = end
				chunks = append(chunks, &chunk{})
				for len(chunks) > 1 && chunks[0].left.Load() == 0 {
					at, chunks = chunks[0].end, chunks[1:]
				}
				return at
			},
		})
		if flushed := p.flush(nil); err == nil {
			err = flushed
		}
		return err
	}}
}

// chunk is what was read between two acknowledgements: how many of its events
// are not acknowledged by the broker, and where it ends.
type chunk struct {
	left atomic.Int64
	end  pglogrepl.LSN
}
