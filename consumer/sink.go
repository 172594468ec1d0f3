package consumer

import (
	"context"

	"github.com/settlemq/settle"
)

// Deliver implements settle.Sink.
func (s *session[Tx]) Deliver(ctx context.Context, p settle.Partition, records []settle.Record) error {
	name := partName{p.Topic, p.Number}
	if s.cfg.Crash != nil {
		s.crashAfterAck(name)
		s.crash("consume.after_fetch")
	}
	answer := make(chan error, 1)
	s.mu.Lock()
	s.last++
	id := s.last
	s.waiting[id] = answer
	s.mu.Unlock()
	s.step(Delivered{ID: id, Partition: p, Records: records})
	var err error
	select {
	case err = <-answer:
	case <-ctx.Done():
		s.step(Withdrawn{ID: id})
		err = <-answer
	}
	if err == nil && s.cfg.Crash != nil {
		s.mu.Lock()
		s.acked[name] = true
		s.mu.Unlock()
	}
	return err
}

// crashAfterAck is at a crash point that can only be seen from here: the
// broker has taken the acknowledgement of a partition's last delivery when it
// makes the next one.
func (s *session[Tx]) crashAfterAck(name partName) {
	s.mu.Lock()
	acked := s.acked[name]
	delete(s.acked, name)
	s.mu.Unlock()
	if acked {
		// Crash here: nothing is lost, nothing comes again.
		s.crash("consume.after_ack")
	}
}

// Claim implements settle.Ownership. The machine learns of each claim before
// records can be delivered under it.
func (s *session[Tx]) Claim(ctx context.Context, topic string, n int) ([]settle.Claim, error) {
	claims, err := s.inbox.Claim(ctx, settle.ClaimRequest{
		Group: s.group, Topic: topic, Owner: s.cfg.Owner, Partitions: n, TTL: s.cfg.LeaseTTL,
	})
	if err != nil {
		return nil, wrap("claim partitions", err)
	}
	s.mu.Lock()
	s.leased = true
	gone := make([]int, 0, n)
	for i := range n {
		if _, had := s.owned[partName{topic, i}]; had {
			gone = append(gone, i)
		}
	}
	for _, c := range claims {
		s.owned[partName{topic, c.Partition.Number}] = struct{}{}
		for i, g := range gone {
			if g == c.Partition.Number {
				gone = append(gone[:i], gone[i+1:]...)
				break
			}
		}
	}
	for _, g := range gone {
		delete(s.owned, partName{topic, g})
	}
	s.mu.Unlock()
	for _, g := range gone {
		s.step(Lost{Topic: topic, Number: g})
	}
	for _, c := range claims {
		s.step(Claimed{Claim: c})
	}
	return claims, nil
}

// RaiseFloor implements settle.Ownership.
func (s *session[Tx]) RaiseFloor(ctx context.Context, p settle.Partition, to settle.Floor) error {
	return s.inbox.RaiseFloor(ctx, s.group, p, to)
}
