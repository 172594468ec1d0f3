package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxMonitorBytes bounds the answer of a monitor.
const maxMonitorBytes = 1 << 20

// monitorSeen is what the monitor of one server says, or why it does not.
type monitorSeen struct {
	at  string
	err error

	Config struct {
		SyncInterval time.Duration `json:"sync_interval"`
		SyncAlways   bool          `json:"sync_always"`
	} `json:"config"`
	Cluster *struct {
		Size int `json:"cluster_size"`
	} `json:"meta_cluster"`
}

// askMonitors asks each once.
func askMonitors(ctx context.Context, at []string, timeout time.Duration) (all []monitorSeen) {
	client := &http.Client{Timeout: timeout}
	defer client.CloseIdleConnections()
	for _, m := range at {
		seen := monitorSeen{at: m}
		seen.err = askMonitor(ctx, client, strings.TrimSuffix(m, "/")+"/jsz?config=true", &seen)
		all = append(all, seen)
	}
	return all
}

func askMonitor(ctx context.Context, client *http.Client, at string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(req)
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err // without the address, which is said once
	}
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", answer.Status)
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxMonitorBytes)).Decode(into); err != nil {
		return fmt.Errorf("it is no monitor of NATS: %w", err)
	}
	return nil
}
