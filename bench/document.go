package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

const documentHead = `# Benchmarks

How fast events leave an outbox, go through a broker and are applied, beside other ways to do the same: those of a table
side by side in one run, on one server. This file is written by the runs themselves, from what stands in [%[1]s](%[1]s); [Reading the figures](#reading-the-figures), below, is by people and says what may be concluded.

%[2]s
Each way is one file of [bench/](../bench), short enough to judge whether it is fair: ` + "`relay_*`, `consumer_*`, `publish_*`, `read_*`, `drain_*`" + `.
The raw limit is what the same machine does with no guarantee at all. Each way runs in a process of its own. Relays have
tables of their own; where no broker is named, a null sink takes what they publish and counts.

` + "```" + `
%[3]s` + "```" + `
`

// kept is where the part of the document begins that people have written.
const kept = "\n## Reading the figures\n"

// dataPath is where the figures of a document are kept, those of all its runs.
func dataPath(document string) string { return strings.TrimSuffix(document, ".md") + ".json" }

// write writes the report as a document. Of what other runs have written into it
// those parts stay that were not measured now, and what people have written at
// its end does.
func (r *report) write(path string) error {
	if err := r.merge(dataPath(path)); err != nil {
		return err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, documentHead, dataPath(path)[strings.LastIndex(path, "/")+1:], r.measuredOn(), r.drawing())
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
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(path, b.Bytes(), 0o644), os.WriteFile(dataPath(path), append(data, '\n'), 0o644))
}

// merge takes over from a file what was not measured now.
func (r *report) merge(path string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var old report
	if err == nil {
		err = json.Unmarshal(data, &old)
	}
	if err != nil {
		return fmt.Errorf("read the figures of other runs: %w", err)
	}
	for _, p := range old.Parts {
		if !slices.ContainsFunc(r.Parts, func(q part) bool { return q.Database.Name == p.Database.Name }) {
			r.Parts = append(r.Parts, p)
		}
	}
	for _, p := range old.Brokers {
		if !slices.ContainsFunc(r.Brokers, func(q brokerPart) bool { return q.Name == p.Name }) {
			r.Brokers = append(r.Brokers, p)
		}
	}
	slices.SortStableFunc(r.Parts, func(p, q part) int { return strings.Compare(q.Database.Name, p.Database.Name) }) // PostgreSQL first
	slices.SortStableFunc(r.Brokers, func(p, q brokerPart) int { return strings.Compare(p.Name, q.Name) })
	return nil
}

// measuredOn lists the runs.
func (r *report) measuredOn() string {
	var b strings.Builder
	for _, told := range r.runs() {
		lines := strings.Split(told, "\n")
		fmt.Fprintf(&b, "- %s\n  ·%s\n  · `%s`\n", lines[0], lines[1][1:], strings.TrimSpace(lines[2]))
	}
	return b.String()
}

// drawing shows the first column of the tables that matter most.
func (r *report) drawing() string {
	var blocks []string
	for _, p := range r.Parts {
		var b strings.Builder
		fmt.Fprintf(&b, "%s, a backlog is drained into a null sink\n", p.Database.title())
		for _, row := range p.Relays {
			fmt.Fprintf(&b, "  %-58s %9s/s  %s\n", row.Title, count(row.Rate), bars(row.Rate, r.top(drained), 32))
		}
		blocks = append(blocks, b.String())
	}
	for _, p := range r.Brokers {
		var b strings.Builder
		fmt.Fprintf(&b, "%s to %s, a backlog is drained\n", p.Database.title(), p.title())
		top := 0.0
		for _, row := range p.Drain {
			top = max(top, row.Rate)
		}
		for _, row := range p.Drain {
			fmt.Fprintf(&b, "  %-58s %9s/s  %s\n", row.Title, count(row.Rate), bars(row.Rate, top, 32))
		}
		if len(p.Drain) > 0 {
			blocks = append(blocks, b.String())
		}
	}
	return strings.Join(blocks, "\n")
}
