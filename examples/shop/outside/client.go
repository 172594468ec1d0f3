package outside

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/settlemq/settle"
)

// ClientConfig sets up the client of one system. Address is required.
type ClientConfig struct {
	// Address returns where the system is, HOST:PORT; an error means that it is
	// not known now. It is asked before every call.
	Address func() (string, error)
	// Timeout bounds a call. Defaults to 2 s.
	Timeout time.Duration
	// Failures is how many failures in a row open the breaker. Defaults to 5.
	Failures int
	// Wait is how long an open breaker lets nothing through; then one call
	// tries. Defaults to 1 s.
	Wait time.Duration
	// Logger gets a line when the breaker opens or closes. Defaults to
	// slog.Default().
	Logger *slog.Logger
}

func (c ClientConfig) withDefaults() ClientConfig {
	if c.Timeout <= 0 {
		c.Timeout = 2 * time.Second
	}
	if c.Failures <= 0 {
		c.Failures = 5
	}
	if c.Wait <= 0 {
		c.Wait = time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 10

// errGarbage: the answer makes no sense, so nobody knows what was done.
var errGarbage = errors.New("the answer makes no sense")

// refusedError is what a system answers for good: 402, 409 or a 4xx that says
// that our request is wrong.
type refusedError struct {
	status         int
	detail, reason string
}

func (r *refusedError) Error() string { return fmt.Sprintf("refused (%d): %s", r.status, r.detail) }

// client calls one system. Its methods may be called from several goroutines.
type client struct {
	system  string
	cfg     ClientConfig
	http    *http.Client
	breaker *gobreaker.CircuitBreaker[struct{}]
}

func newClient(system string, cfg ClientConfig) *client {
	cfg = cfg.withDefaults()
	c := &client{system: system, cfg: cfg}
	c.http = &http.Client{
		// No proxy, and a redirection is followed by nobody who moves money.
		Transport:     &http.Transport{MaxIdleConnsPerHost: 8, IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 16 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c.breaker = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        system,
		Timeout:     cfg.Wait,
		ReadyToTrip: func(n gobreaker.Counts) bool { return int(n.ConsecutiveFailures) >= cfg.Failures },
		IsSuccessful: func(err error) bool {
			var refused *refusedError
			return err == nil || errors.As(err, &refused)
		},
		// The caller has left: that says nothing about the system.
		IsExcluded: func(err error) bool { return errors.Is(err, context.Canceled) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			cfg.Logger.Info("breaker of an outside system", "system", system, "was", from.String(), "now", to.String())
		},
	})
	return c
}

// Close closes idle connections. Calls may go on.
func (c *client) Close() { c.http.CloseIdleConnections() }

// call asks the system once, under key, and reads its answer into into; ok
// says whether that makes sense. Errors are classified as package outside
// describes, but for refusals: they are refusedErrors for the caller to judge.
func (c *client) call(ctx context.Context, path, key string, body, into any, ok func() bool) error {
	_, err := c.breaker.Execute(func() (struct{}, error) {
		answer, err := c.send(ctx, path, key, body)
		if err == nil && (json.Unmarshal(answer, into) != nil || !ok()) {
			err = fmt.Errorf("%w: %.80q", errGarbage, answer)
		}
		return struct{}{}, err
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		err = settle.Unavailable(err)
	}
	if err != nil {
		return fmt.Errorf("ask %s: %w", c.system, err)
	}
	return nil
}

// send makes one request and returns the body of a success.
func (c *client) send(ctx context.Context, path, key string, body any) ([]byte, error) {
	addr, err := c.cfg.Address()
	if err != nil {
		return nil, settle.Unavailable(err)
	}
	b, err := json.Marshal(body)
	if err != nil {
		return nil, settle.Permanent(err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+path, bytes.NewReader(b))
	if err != nil {
		return nil, settle.Unavailable(err) // the address is wrong
	}
	// One call is one request: net/http would send a keyed one again by itself.
	r.GetBody = nil
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	response, err := c.http.Do(r)
	if err != nil {
		return nil, transportError(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	return answer, judge(response.StatusCode, answer)
}

// transportError tells a connection that was never made, so that nothing was
// tried, from one that broke.
func transportError(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" && !errors.Is(err, context.Canceled) {
		return settle.Unavailable(err)
	}
	return err
}

// judge classifies an answer; nil for a success whose body is to be read.
func judge(status int, body []byte) error {
	var p problem
	switch {
	case len(body) > maxAnswer:
		return fmt.Errorf("%w: it is longer than 64 KiB", errGarbage)
	case status == http.StatusOK || status == http.StatusCreated:
		return nil
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed:
		return settle.Unavailable(fmt.Errorf("status %d: what answers there is not the system", status))
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		return settle.Unavailable(fmt.Errorf("status %d: it is busy or away", status))
	case status == http.StatusRequestTimeout:
		return fmt.Errorf("status %d: it did not get the request", status)
	case status >= 400 && status < 500:
		if json.Unmarshal(body, &p) != nil || p.Status != status {
			return fmt.Errorf("%w: status %d, %.80q", errGarbage, status, body)
		}
		return &refusedError{status: status, detail: p.Detail, reason: p.Reason}
	}
	return fmt.Errorf("status %d", status)
}
