package cli

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/govern"
)

// sources are the services' databases a command looks at: those of a shop's
// directory, or those named one by one.
type sources struct {
	dir string
	dbs []string
	// crash is Hooks.Crash.
	crash func(point string)
}

func (s *sources) flags(c *cobra.Command) {
	c.Flags().StringVar(&s.dir, "dir", ".", "directory of a shop: each NAME.db in it is the service NAME")
	c.Flags().StringArrayVar(&s.dbs, "db", nil, "a service's database as NAME=URL, instead of --dir; may be repeated")
}

// open opens them all. done closes them.
func (s *sources) open(ctx context.Context) (fed *govern.Federation, done func(), err error) {
	named, err := s.urls()
	if err != nil {
		return nil, nil, err
	}
	var open []*dial.Database
	done = func() {
		for _, db := range open {
			_ = db.Close()
		}
	}
	var list []govern.Source
	for _, n := range named {
		db, err := dial.Store(ctx, n.url, dial.StoreConfig{Service: n.name, Existing: true, Crash: s.crash})
		if err != nil {
			done()
			var wrong *dial.URLError
			if errors.As(err, &wrong) {
				return nil, nil, usagef("--db %s: %w", n.name, err)
			}
			return nil, nil, unreachablef("open the database of %s: %w", n.name, err)
		}
		open = append(open, db)
		list = append(list, govern.Source{Name: n.name, Store: db.Governance})
	}
	return govern.NewFederation(list...), done, nil
}

type namedURL struct{ name, url string }

func (s *sources) urls() ([]namedURL, error) {
	var named []namedURL
	for _, db := range s.dbs {
		name, raw, ok := strings.Cut(db, "=")
		if !ok || name == "" || strings.Contains(name, ":") {
			return nil, usagef("--db %q is not NAME=URL, for instance order=sqlite:///var/lib/shop/order.db", name)
		}
		if u, err := url.Parse(raw); err == nil && u.Scheme == "sqlite" {
			if _, err := os.Stat(u.Path); err != nil {
				return nil, unreachablef("the database of %s: %w", name, err)
			}
		}
		named = append(named, namedURL{name, raw})
	}
	if len(named) > 0 {
		return named, nil
	}
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		return nil, usagef("--dir: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.db"))
	if err != nil || len(files) == 0 {
		return nil, usagef("there is no database (NAME.db) in %s; name a shop's directory with --dir, or databases with --db NAME=URL", s.dir)
	}
	for _, f := range files {
		named = append(named, namedURL{strings.TrimSuffix(filepath.Base(f), ".db"), (&url.URL{Scheme: "sqlite", Path: f}).String()})
	}
	slices.SortFunc(named, func(a, b namedURL) int { return strings.Compare(a.name, b.name) })
	return named, nil
}
