package shop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/settlemq/settle/consumer"
)

// keepStats writes down what a consumer has counted until ctx is done, so that
// it is not lost with a process that is killed. Each process has a file of its
// own: the sum is over all that ever ran.
func keepStats(ctx context.Context, dir, role string, stats func() consumer.Stats) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keep stats: %w", err)
	}
	path := filepath.Join(dir, fmt.Sprintf("%s-%d-%d.json", role, os.Getpid(), time.Now().UnixNano()))
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := writeStats(path, stats()); err != nil {
				return fmt.Errorf("keep stats: %w", err)
			}
		case <-ctx.Done():
			return writeStats(path, stats())
		}
	}
}

func writeStats(path string, s consumer.Stats) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// ReadStats returns what the processes that wrote to a StatsDir have counted,
// one for each. What a killed process counted in its last quarter of a second
// is missing. A directory that is not there holds none.
func ReadStats(dir string) ([]consumer.Stats, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read stats: %w", err)
	}
	var all []consumer.Stats
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".json" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read stats: %w", err)
		}
		var s consumer.Stats
		if err := json.Unmarshal(b, &s); err != nil {
			return nil, fmt.Errorf("read stats %s: %w", e.Name(), err)
		}
		all = append(all, s)
	}
	return all, nil
}
