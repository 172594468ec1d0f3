package cli

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/settlemq/settle/drill"
)

// pageable makes sure of the report's place before minutes are spent on what
// is to go there, and leaves nothing in it: who is interrupted has no report.
func (d *demo) pageable() error {
	if d.report == "" {
		return nil
	}
	there, err := os.Stat(d.report)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return usagef("--report: %w", err)
	case there.IsDir():
		return usagef("--report %s is a directory; name a file", d.report)
	case !there.Mode().IsRegular():
		return usagef("--report %s is not a regular file, and the page would take its place; name a file", d.report)
	}
	f, err := os.CreateTemp(filepath.Dir(d.report), ".settle-report-")
	if err != nil {
		return usagef("--report %s: %w", d.report, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// page writes the report as an HTML page, if one was asked for: whole, or not
// at all.
func (d *demo) page(ctx context.Context, dir string, r *drill.Report) error {
	if d.report == "" {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(d.report), ".settle-report-")
	if err != nil {
		return unreachablef("write report: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	w := bufio.NewWriter(f)
	err = drill.WritePage(ctx, w, filepath.Join(dir, drill.FactsFile), r, d.repairCommands(dir, r.Letters))
	if err == nil {
		err = w.Flush()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(f.Name(), d.report)
	}
	if err != nil {
		return unreachablef("write report: %w", err)
	}
	d.screen.say("The report is in %s.", d.report)
	return nil
}
