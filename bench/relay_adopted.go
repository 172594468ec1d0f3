package main

import (
	"context"
	"net/url"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/postgres"
)

const adoptedName = "adopted"

// settleAdopted is Settle's relay on the table of the classic one, adopted as it
// stands: what becomes of a row is written into its status.
func settleAdopted() contender {
	return contender{name: adoptedName, title: "Settle, adopted table, statuses written", layout: adoptedLayout(true), carry: carryAdopted}
}

// settleUnprojected is the same and leaves the statuses alone.
func settleUnprojected() contender {
	return contender{name: "unprojected", title: "Settle, adopted table, statuses left alone", layout: adoptedLayout(false), carry: carryAdopted}
}

// adoptedLayout is the classic table and, beside it, the schema that reads it.
func adoptedLayout(project bool) layout {
	l := queueLayout
	l.create = func(ctx context.Context, conn *pgx.Conn, at string) error {
		if err := queueLayout.create(ctx, conn, at); err != nil {
			return err
		}
		own, err := besideURL(at)
		if err != nil {
			return err
		}
		table := conn.Config().RuntimeParams["search_path"] + ".t_outbox_event"
		a, err := postgres.NewAdopt(own, migrate.AdoptConfig{Table: table, Payload: migrate.PayloadBody, Project: &project})
		if err == nil {
			_, err = a.Run(ctx)
		}
		return err
	}
	return l
}

// beside is the schema of Settle's own tables.
func beside(schema string) string { return schema + "_settle" }

func besideURL(at string) (string, error) {
	u, err := url.Parse(at)
	if err != nil {
		return "", err
	}
	q := u.Query()
	q.Set("search_path", beside(q.Get("search_path")))
	u.RawQuery = q.Encode()
	return u.String(), nil
}

func carryAdopted(ctx context.Context, c conditions) (err error) {
	if c.url, err = besideURL(c.url); err != nil {
		return err
	}
	return carrySettle(ctx, c, relay.Config{Name: "bench", BatchRows: 1000})
}
