package main

import (
	"context"
	"net/url"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/postgres"
)

const adoptedName = "adopted"

// adoptedOnPostgres is Settle's relay on the table of the classic one, adopted
// as it stands: what becomes of a row is written into its status.
func adoptedOnPostgres() contender {
	return contender{name: adoptedName, title: "Settle, adopted table, statuses written", layout: adoptedLayout(true), carry: carryAdopted, share: 2}
}

// unprojectedOnPostgres is the same and leaves the statuses alone.
func unprojectedOnPostgres() contender {
	return contender{name: "unprojected", title: "Settle, adopted table, statuses left alone", layout: adoptedLayout(false), carry: carryAdopted}
}

// adoptedLayout is the classic table and, beside it, the schema that reads it.
func adoptedLayout(project bool) layout {
	l := queueOnPostgres
	l.create = func(ctx context.Context, p *place) error {
		if err := queueOnPostgres.create(ctx, p); err != nil {
			return err
		}
		own, err := besideURL(p.url)
		if err != nil {
			return err
		}
		a, err := postgres.NewAdopt(own, migrate.AdoptConfig{Table: p.name + ".t_outbox_event", Payload: migrate.PayloadBody, Project: &project})
		if err == nil {
			_, err = a.Run(ctx)
		}
		return err
	}
	return l
}

// beside is where Settle's own tables are.
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
	return carrySettle(ctx, c, relay.Config{Name: "bench", BatchRows: 1000}, openLogOnPostgres)
}
