package remoting

import (
	"context"
	"encoding/json"
	"strings"
)

const (
	requestSetSettings = 25
	requestSettings    = 26
	requestState       = 28
)

// Settings returns all settings of a broker, as its configuration names them.
func (c *Client) Settings(ctx context.Context, broker string) (map[string]string, error) {
	a, err := c.request(ctx, broker, Command{Code: requestSettings})
	if err != nil {
		return nil, err
	}
	return parseSettings(string(a.Body)), nil
}

func parseSettings(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, is := strings.Cut(strings.TrimSpace(line), "="); is {
			all[name] = value
		}
	}
	return all
}

// SetSettings changes settings of a running broker, which writes them to its file.
// It believes any value.
func (c *Client) SetSettings(ctx context.Context, broker string, settings map[string]string) error {
	var text strings.Builder
	for name, value := range settings {
		text.WriteString(name + "=" + value + "\n")
	}
	_, err := c.request(ctx, broker, Command{Code: requestSetSettings, Body: []byte(text.String())})
	return err
}

// State returns what a broker tells of itself as it is now: how full its disks are,
// how long its queues, since when it runs.
func (c *Client) State(ctx context.Context, broker string) (map[string]string, error) {
	a, err := c.request(ctx, broker, Command{Code: requestState})
	if err != nil {
		return nil, err
	}
	var told struct {
		Table map[string]string `json:"table"`
	}
	if err := json.Unmarshal(a.Body, &told); err != nil {
		return nil, unreadable(broker, requestState, err)
	}
	return told.Table, nil
}

const requestReplication = 907

// Replication is what a master says of its slaves.
type Replication struct {
	// InSync is how many are near enough to be counted.
	InSync int `json:"inSyncSlaveNums"`
	// Slaves are those that are connected.
	Slaves []struct {
		Addr   string `json:"addr"`
		Behind int64  `json:"diff"`
		InSync bool   `json:"inSync"`
	} `json:"haConnectionInfo"`
}

// Replication returns how far a master's slaves are behind it, in bytes of its log.
func (c *Client) Replication(ctx context.Context, broker string) (Replication, error) {
	a, err := c.request(ctx, broker, Command{Code: requestReplication})
	if err != nil {
		return Replication{}, err
	}
	var told Replication
	if err := decodeLenient(a.Body, &told); err != nil {
		return told, unreadable(broker, requestReplication, err)
	}
	return told, nil
}
