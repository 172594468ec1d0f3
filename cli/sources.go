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
	"github.com/settlemq/settle/examples/shop"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/server"
)

// sources are the services' databases a command looks at: those of a shop's
// directory, those of a config file, or those named one by one.
type sources struct {
	dir    string
	dbs    []string
	config string
	// crash is Hooks.Crash.
	crash func(point string)
}

func (s *sources) flags(c *cobra.Command) {
	c.Flags().StringVar(&s.dir, "dir", ".", "directory of a shop: each NAME.db in it is the service NAME, unless it says that a database holds them")
	c.Flags().StringArrayVar(&s.dbs, "db", nil, "a service's database as NAME=URL, instead of --dir; may be repeated; ${NAME} and ${file:/path} in it are replaced")
	c.Flags().StringVarP(&s.config, "config", "c", "", "config file of settle serve: its sources, instead of --dir")
}

// open opens them all; one that can't be opened says so whenever it is asked.
// done closes them.
func (s *sources) open(ctx context.Context) (fed *govern.Federation, done func(), err error) {
	named, hide, err := s.urls()
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
	var silent error
	for _, n := range named {
		db, err := dial.Store(ctx, n.url, dial.StoreConfig{Service: n.name, Existing: true, Crash: s.crash})
		var wrong *dial.URLError
		switch {
		case errors.As(err, &wrong):
			done()
			return nil, nil, usagef("--db %s: %w", n.name, err)
		case errors.Is(err, dial.ErrForeign):
			done()
			return nil, nil, unreachablef("open the database of %s: %w", n.name, hide(err))
		case err != nil:
			silent = unreachablef("open the database of %s: %w", n.name, hide(err))
			list = append(list, govern.Source{Name: n.name, Store: absent{silent}})
			continue
		}
		open = append(open, db)
		list = append(list, govern.Source{Name: n.name, Store: db.Governance})
	}
	// One that is away hides its own part only; with all of them nothing is left.
	if len(open) == 0 && silent != nil {
		return nil, nil, silent
	}
	return govern.NewFederation(list...), done, nil
}

type namedURL struct{ name, url string }

// urls returns what is named, and what takes passwords out of errors.
func (s *sources) urls() (named []namedURL, hide func(error) error, err error) {
	switch {
	case s.config != "" && len(s.dbs) > 0:
		return nil, nil, usagef("name databases with --db, or a config file with -c, not both")
	case s.config != "":
		cfg, err := readServeConfig(s.config)
		if err != nil {
			return nil, nil, err
		}
		for name, source := range cfg.Sources {
			named = append(named, namedURL{name, source.DB})
		}
		hide = cfg.HideError
	case len(s.dbs) > 0:
		named, hide, err = s.named()
	default:
		named, hide, err = s.found()
	}
	if len(s.dbs) == 0 {
		slices.SortFunc(named, func(a, b namedURL) int { return strings.Compare(a.name, b.name) })
	}
	return named, hide, err
}

// named returns what --db names.
func (s *sources) named() (named []namedURL, hide func(error) error, err error) {
	sources := map[string]server.SourceConfig{}
	for _, db := range s.dbs {
		name, raw, ok := strings.Cut(db, "=")
		if !ok || name == "" || strings.Contains(name, ":") {
			// What was given is not shown: it may hold a password.
			return nil, nil, usagef("--db takes NAME=URL, for instance order=sqlite:///var/lib/shop/order.db; there is no NAME before the URL")
		}
		if raw, err = server.Expand(raw); err != nil {
			return nil, nil, usagef("--db %s: %w", name, err)
		}
		if u, err := url.Parse(raw); err == nil && u.Scheme == "sqlite" {
			if _, err := os.Stat(u.Path); err != nil {
				return nil, nil, unreachablef("the database of %s: %w", name, err)
			}
		}
		named = append(named, namedURL{name, raw})
		sources[name] = server.SourceConfig{DB: raw}
	}
	return named, server.Config{Sources: sources}.HideError, nil
}

// found returns the databases of a shop's directory.
func (s *sources) found() (named []namedURL, hide func(error) error, err error) {
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		return nil, nil, usagef("--dir: %w", err)
	}
	if _, served := shop.Holds(dir); served {
		return s.inDatabase(dir)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.db"))
	if err != nil || len(files) == 0 {
		return nil, nil, usagef("there is no database (NAME.db) in %s; name a shop's directory with --dir, databases with --db NAME=URL, or a config file with -c", s.dir)
	}
	for _, f := range files {
		named = append(named, namedURL{strings.TrimSuffix(filepath.Base(f), ".db"), (&url.URL{Scheme: "sqlite", Path: f}).String()})
	}
	return named, func(err error) error { return err }, nil
}

// inDatabase returns the databases of a shop that keeps its tables on a server.
func (s *sources) inDatabase(dir string) (named []namedURL, hide func(error) error, err error) {
	databases, err := shop.Databases(dir)
	if err != nil {
		return nil, nil, unreachablef("%w", err)
	}
	sources := map[string]server.SourceConfig{}
	for _, d := range databases {
		named = append(named, namedURL{d.Service, d.URL})
		sources[d.Service] = server.SourceConfig{DB: d.URL}
	}
	return named, server.Config{Sources: sources}.HideError, nil
}
