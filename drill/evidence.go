package drill

import (
	"context"
	"fmt"

	"github.com/settlemq/settle"
)

// CopyLog reads the whole log of a topic back from the broker and adds it.
func (f *Facts) CopyLog(ctx context.Context, t Tap, topic string) error {
	cols := []string{"topic", "broker_partition", "broker_offset", "event_id", "aggregate_type", "aggregate_id", "aggregate_seq", "payload_hash"}
	var err error
	err = f.Insert(ctx, "broker_log", cols, func(yield func([]any) bool) {
		err = t.ReadAll(ctx, topic, func(r settle.Record) error {
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

const unplaceOutbox = `UPDATE outbox SET broker_partition=NULL, broker_offset=NULL`

// unplace takes back what outboxes note of places: the broker has told none.
func (f *Facts) unplace(ctx context.Context) error {
	if _, err := f.db.ExecContext(ctx, unplaceOutbox); err != nil {
		return fmt.Errorf("take places out of the outboxes: %w", err)
	}
	return nil
}

// addClients adds what clients asked for and were told, and what they did.
func (f *Facts) addClients(ctx context.Context, requests []Request, feed *Feed) error {
	err := insertAll(ctx, f, "client_request", []string{"request_key", "customer_id", "amount_cents", "refused"}, requests, func(r Request) [][]any {
		return [][]any{{r.Key, r.CustomerID, r.Amount, r.Refused}}
	})
	if err == nil {
		err = insertAll(ctx, f, "client_item", []string{"request_key", "sku", "qty"}, requests, func(r Request) [][]any {
			lines := make([][]any, len(r.Items))
			for i, l := range r.Items {
				lines[i] = []any{r.Key, l.SKU, l.Quantity}
			}
			return lines
		})
	}
	if err == nil {
		err = insertAll(ctx, f, "client_answer", []string{"request_key", "order_id"}, feed.Answers(), func(a Answer) [][]any {
			return [][]any{{a.Key, a.OrderID}}
		})
	}
	if err == nil {
		err = insertAll(ctx, f, "client_act", []string{"request_key", "kind", "accepted"}, feed.Acts(), func(a ActAnswer) [][]any {
			return [][]any{{a.Key, a.Kind, a.Accepted}}
		})
	}
	if err != nil {
		return fmt.Errorf("add what clients know: %w", err)
	}
	return nil
}

// insertAll adds the rows of each of all.
func insertAll[T any](ctx context.Context, f *Facts, table string, cols []string, all []T, rows func(T) [][]any) error {
	return f.Insert(ctx, table, cols, func(yield func([]any) bool) {
		for _, v := range all {
			for _, row := range rows(v) {
				if !yield(row) {
					return
				}
			}
		}
	}, nil)
}

func (f *Facts) addPlanted(ctx context.Context, planted []plantedRecord) error {
	err := insertAll(ctx, f, "planted", []string{"topic", "broker_partition", "broker_offset", "kind"}, planted, func(p plantedRecord) [][]any {
		return [][]any{{p.at.Topic, p.at.Partition, p.at.Offset, p.kind}}
	})
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
