package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/settlemq/settle/relay"
)

var _ relay.Lookout = (*Log)(nil)

const otherRelay = `SELECT foreign_rows, foreign_id, foreign_seen_at FROM settle_adoption`

// OtherRelay implements relay.Lookout.
func (l *Log) OtherRelay(ctx context.Context) (relay.OtherRelay, error) {
	var o relay.OtherRelay
	if l.s.adopted == nil {
		return o, nil
	}
	var at pgtype.Timestamptz
	if err := l.s.reading.QueryRow(ctx, otherRelay).Scan(&o.Rows, &o.LastID, &at); err != nil {
		return relay.OtherRelay{}, fmt.Errorf("look for another relay: %w", explain(err))
	}
	o.SeenAt = instant(at)
	o.AtWork = at.Valid && o.SeenAt.After(l.s.now().Add(-foreignLately))
	return o, nil
}
