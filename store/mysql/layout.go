package mysql

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
)

// exactly stands in the migrations for the collation that compares byte by
// byte; servers have it under different names.
const exactly = "settle_exact"

// layout returns the migrations, as this server takes them, of a database that
// has an outbox of its own, or of one that reads a table of another owner: the
// same numbers, and other files where the two differ.
func (s server) layout(adopted bool) (fs.FS, error) {
	own, err := fs.Sub(migrations, "migrations")
	if err != nil || !adopted {
		return spelled{own, s.exact}, err
	}
	over, err := fs.Sub(migrations, "migrations/adopted")
	return spelled{overlay{own, over}, s.exact}, err
}

// layoutOf returns the migrations of the layout that a database has.
func (s server) layoutOf(ctx context.Context, db querier) (fs.FS, error) {
	var adopted bool
	if err := db.QueryRowContext(ctx, hasAdoption).Scan(&adopted); err != nil {
		return nil, err
	}
	return s.layout(adopted)
}

// overlay is base, with the files of over in the place of those of the same name.
type overlay struct{ base, over fs.FS }

func (o overlay) Open(name string) (fs.File, error) {
	if name != "." {
		if f, err := o.over.Open(name); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return o.base.Open(name)
}

// spelled are files in which exactly is replaced.
type spelled struct {
	fs.FS
	exact string
}

func (s spelled) Open(name string) (fs.File, error) {
	f, err := s.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return f, err
	}
	b, err := io.ReadAll(f)
	return &spelledFile{f, bytes.NewReader(bytes.ReplaceAll(b, []byte(exactly), []byte(s.exact)))}, err
}

type spelledFile struct {
	fs.File
	text *bytes.Reader
}

func (f *spelledFile) Read(b []byte) (int, error) { return f.text.Read(b) }
