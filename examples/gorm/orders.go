package main

import (
	"context"
	"database/sql"
	"encoding/json"

	"gorm.io/gorm"

	"github.com/settlemq/settle"
)

// Order is a row of the business, and the body of its event.
type Order struct {
	ID       string `gorm:"primaryKey" json:"orderId"`
	Customer string `json:"customer"`
	Amount   string `gorm:"type:numeric(12,2)" json:"amount"`
}

// Mail is the effect of an order.
type Mail struct {
	ID      int64
	OrderID string `gorm:"uniqueIndex"`
	Text    string
}

// orders is the order service's store.
type orders struct {
	db     *gorm.DB
	outbox settle.Outbox[*sql.Tx]
}

// place stores an order and its event: after it both are there, or neither.
func (s *orders) place(ctx context.Context, o Order) error {
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&o).Error; err != nil {
			return err
		}
		return s.created(tx, o)
	})
}

func (s *orders) created(tx *gorm.DB, o Order) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return appendEvent(tx, s.outbox, &settle.Event{Type: "order.created", AggregateType: "order", AggregateID: o.ID, Payload: body})
}

// thank is the handler of order.created. The mail and the note that the event
// is done commit together, so a second delivery writes no second mail.
func (s *orders) thank(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
	var o Order
	if err := json.Unmarshal(e.Payload, &o); err != nil {
		return settle.Permanent(err)
	}
	return within(ctx, s.db, tx).Create(&Mail{OrderID: o.ID, Text: "Thank you, " + o.Customer + ", for " + o.Amount}).Error
}
