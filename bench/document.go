package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

const documentHead = `# Benchmarks

How fast events leave an outbox and are applied, beside other ways to do the same: side by side in one run,
on one server of each database, into a null sink. This file is written by the run itself; [Reading the figures](#reading-the-figures), below, is by people and says what may be concluded.

    %s

%s

Each way is one file of [bench/](../bench), short enough to judge whether it is fair: ` + "`relay_*_postgres.go`, `relay_*_mysql.go`, `consumer_*`" + `.
The raw limit is what the same machine does with no guarantee at all. Each relay runs in a process of its own, on
tables of its own; a null sink takes what it publishes and counts.

` + "```" + `
%s` + "```" + `
`

// kept is where the part of the document begins that people have written.
const kept = "\n## Reading the figures\n"

// write writes the report as a document. What people have written at its end
// stays.
func (r *report) write(path string) error {
	var drawing bytes.Buffer
	for i, p := range r.Parts {
		if i > 0 {
			drawing.WriteByte('\n')
		}
		fmt.Fprintf(&drawing, "%s\n", p.Database.title())
		for _, row := range p.Relays {
			fmt.Fprintf(&drawing, "  %-58s %9s/s  %s\n", row.Title, count(row.Rate), bars(row.Rate, r.top(drained), 32))
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, documentHead, r.Command, r.told(), drawing.String())
	for _, t := range r.tables() {
		if err := t.markdown(&b); err != nil {
			return err
		}
	}
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, remarks, found := bytes.Cut(old, []byte(kept)); found {
		b.WriteString(kept)
		b.Write(remarks)
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
