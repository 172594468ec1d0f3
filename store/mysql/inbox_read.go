package mysql

import (
	"context"
	"fmt"

	"github.com/settlemq/settle"
)

const (
	readControlVersion = `SELECT version FROM settle_control_version`
	readControls       = `SELECT kind, name FROM settle_control ORDER BY kind, name`
)

// Controls implements settle.Inbox. Each statement sees what is committed, so
// the version is read first: what is read with an older one is read again.
func (in *Inbox) Controls(ctx context.Context) (settle.Controls, error) {
	var c settle.Controls
	err := in.s.reader.QueryRowContext(ctx, readControlVersion).Scan(&c.Version)
	if err == nil {
		var r settle.Control
		err = each(ctx, in.s.reader, []any{&r.Kind, &r.Name}, func() { c.Rows = append(c.Rows, r) }, readControls)
	}
	if err != nil {
		return settle.Controls{}, fmt.Errorf("read controls: %w", explain(err))
	}
	return c, nil
}
