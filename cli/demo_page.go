package cli

import (
	"bufio"
	"context"
	"os"
	"path/filepath"

	"github.com/settlemq/settle/drill"
)

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
