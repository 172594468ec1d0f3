package outside

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// Inspect asks a system of the shop in dir how it stands. ErrNotServing means
// that it does not run.
func Inspect(ctx context.Context, dir, system string) (Standing, error) {
	s, err := remote(ctx, dir, system, http.MethodGet, nil)
	if err != nil {
		return s, fmt.Errorf("inspect %s: %w", system, err)
	}
	return s, nil
}

// Misbehave tells a system of the shop in dir how to behave and returns how it
// stands then. ErrNotServing means that it does not run.
func Misbehave(ctx context.Context, dir, system string, m Misbehaviour) (Standing, error) {
	if err := m.Check(system); err != nil {
		return Standing{}, fmt.Errorf("tell %s: %w", system, err)
	}
	b, err := json.Marshal(m)
	if err != nil {
		return Standing{}, fmt.Errorf("tell %s: %w", system, err)
	}
	s, err := remote(ctx, dir, system, http.MethodPost, b)
	if err != nil {
		return s, fmt.Errorf("tell %s: %w", system, err)
	}
	return s, nil
}

func remote(ctx context.Context, dir, system, method string, body []byte) (Standing, error) {
	var s Standing
	addr, err := Address(dir, system)
	if err != nil {
		return s, err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+addr+"/misbehave", bytes.NewReader(body))
	if err != nil {
		return s, err
	}
	r.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport, Timeout: workTimeout}).Do(r)
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return s, fmt.Errorf("%w: %w", ErrNotServing, err)
	}
	if err != nil {
		return s, err
	}
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	switch {
	case err != nil:
		return s, err
	case response.StatusCode != http.StatusOK:
		return s, fmt.Errorf("status %d: %.200s", response.StatusCode, b)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("read answer: %w", err)
	}
	if s.System != system {
		return s, fmt.Errorf("%w: %s answers at its address", ErrNotServing, s.System)
	}
	return s, nil
}
