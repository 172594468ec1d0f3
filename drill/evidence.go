package drill

import (
	"context"
	"fmt"

	"github.com/settlemq/settle"
)

// CopyLog reads the whole log of a topic back from the broker and adds it.
func (f *Facts) CopyLog(ctx context.Context, t Tap, topic string) error {
	first, last, err := t.Bounds(ctx, topic)
	if err != nil {
		return fmt.Errorf("read log of %s: %w", topic, err)
	}
	cols := []string{"topic", "broker_partition", "broker_offset", "event_id", "aggregate_type", "aggregate_id", "aggregate_seq", "payload_hash"}
	err = f.Insert(ctx, "broker_log", cols, func(yield func([]any) bool) {
		if last == 0 {
			return
		}
		err = t.ReadLog(ctx, topic, first, last, func(r settle.Record) error {
			e := r.Event
			payload := r.Raw
			if e == nil {
				e = &settle.Event{}
			} else {
				payload = e.Payload
			}
			if !yield([]any{topic, r.At.Partition, r.At.Offset, e.ID, e.AggregateType, e.AggregateID, e.AggregateSeq, payloadHash(payload)}) {
				return context.Canceled
			}
			return nil
		})
	}, &err)
	if err != nil {
		return fmt.Errorf("read log of %s: %w", topic, err)
	}
	return nil
}

func (f *Facts) addClients(ctx context.Context, requests []Request, answers []Answer) error {
	err := f.Insert(ctx, "client_request", []string{"request_key"}, func(yield func([]any) bool) {
		for _, r := range requests {
			if !yield([]any{r.Key}) {
				return
			}
		}
	}, nil)
	if err != nil {
		return fmt.Errorf("add requests: %w", err)
	}
	err = f.Insert(ctx, "client_item", []string{"request_key", "sku", "qty"}, func(yield func([]any) bool) {
		for _, r := range requests {
			for _, l := range r.Items {
				if !yield([]any{r.Key, l.SKU, l.Quantity}) {
					return
				}
			}
		}
	}, nil)
	if err != nil {
		return fmt.Errorf("add requests: %w", err)
	}
	err = f.Insert(ctx, "client_answer", []string{"request_key", "order_id"}, func(yield func([]any) bool) {
		for _, a := range answers {
			if !yield([]any{a.Key, a.OrderID}) {
				return
			}
		}
	}, nil)
	if err != nil {
		return fmt.Errorf("add answers: %w", err)
	}
	return nil
}

func (f *Facts) addPlanted(ctx context.Context, planted []plantedRecord) error {
	err := f.Insert(ctx, "planted", []string{"topic", "broker_partition", "broker_offset", "kind"}, func(yield func([]any) bool) {
		for _, p := range planted {
			if !yield([]any{p.at.Topic, p.at.Partition, p.at.Offset, p.kind}) {
				return
			}
		}
	}, nil)
	if err != nil {
		return fmt.Errorf("add planted records: %w", err)
	}
	return nil
}

// AddSubscriptions adds which event types each consumer group handles.
func (f *Facts) AddSubscriptions(ctx context.Context, consumes map[string][]string) error {
	err := f.Insert(ctx, "subscription", []string{"consumer", "event_type"}, func(yield func([]any) bool) {
		for group, types := range consumes {
			for _, eventType := range types {
				if !yield([]any{group, eventType}) {
					return
				}
			}
		}
	}, nil)
	if err != nil {
		return fmt.Errorf("add subscriptions: %w", err)
	}
	return nil
}
