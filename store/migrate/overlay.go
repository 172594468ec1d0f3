package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
)

// Overlay returns the files of base, with those of over in the place of those of
// the same name. What such a file has in common with the one that it replaces
// is written there only: a line
//
//	-- Here is what stands in the file of this name, from "FIRST" to "LAST".
//
// gives way to the lines of base's file, from the first that begins with FIRST
// to the next that begins with LAST.
func Overlay(base, over fs.FS) fs.FS { return overlay{base, over} }

type overlay struct{ base, over fs.FS }

func (o overlay) Open(name string) (fs.File, error) {
	if name == "." {
		return o.base.Open(name)
	}
	f, err := o.over.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return o.base.Open(name)
	}
	if err != nil {
		return nil, err
	}
	return changed(f, func(text []byte) ([]byte, error) {
		below, err := fs.ReadFile(o.base, name)
		if errors.Is(err, fs.ErrNotExist) {
			return text, nil
		}
		if err != nil {
			return nil, err
		}
		return compose(name, text, below)
	})
}

var sameLines = regexp.MustCompile(`(?m)^-- Here is what stands in the file of this name, from "(.+)" to "(.+)"\.\n`)

func compose(name string, text, below []byte) (whole []byte, err error) {
	whole = sameLines.ReplaceAllFunc(text, func(line []byte) []byte {
		ends := sameLines.FindSubmatch(line)
		first := lineWith(below, ends[1])
		last := lineWith(below[first:], ends[2]) + first
		if bytes.HasPrefix(below[first:], ends[1]) && bytes.HasPrefix(below[last:], ends[2]) {
			return below[first : last+bytes.IndexByte(below[last:], '\n')+1]
		}
		err = fmt.Errorf("compose %s: the file below has no lines from %q to %q", name, ends[1], ends[2])
		return nil
	})
	return whole, err
}

// lineWith is where the first line is that begins with this, or the end.
func lineWith(text, begins []byte) int {
	for at := 0; at < len(text); {
		if bytes.HasPrefix(text[at:], begins) {
			return at
		}
		end := bytes.IndexByte(text[at:], '\n')
		if end < 0 {
			break
		}
		at += end + 1
	}
	return len(text)
}

// Respelled returns the files of base with old replaced by spelled in each.
func Respelled(base fs.FS, old, spelled string) fs.FS { return respelled{base, old, spelled} }

type respelled struct {
	base         fs.FS
	old, spelled string
}

func (r respelled) Open(name string) (fs.File, error) {
	f, err := r.base.Open(name)
	if err != nil {
		return nil, err
	}
	return changed(f, func(text []byte) ([]byte, error) {
		return bytes.ReplaceAll(text, []byte(r.old), []byte(r.spelled)), nil
	})
}

// changed is a file whose text is another; a directory stays as it is.
func changed(f fs.File, change func(text []byte) ([]byte, error)) (fs.File, error) {
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		return f, nil
	}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(f)
	}
	if err == nil {
		text, err = change(text)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &changedFile{File: f, text: bytes.NewReader(text)}, nil
}

type changedFile struct {
	fs.File
	text *bytes.Reader
}

func (f *changedFile) Read(b []byte) (int, error) { return f.text.Read(b) }
