package rabbitmq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// errNoManagement says that nobody named the management API.
var errNoManagement = errors.New("AMQP does not tell it, and the URL names no management API")

const (
	// pageSize and pagesAtMost bound what is asked of one list, answerAtMost an
	// answer.
	pageSize, pagesAtMost = 500, 20
	answerAtMost          = 32 << 20
)

// management is the HTTP interface of the plugin rabbitmq_management. It only
// reads.
type management struct {
	base, user, password string
	client               *http.Client
}

// apiError is an answer that is none.
type apiError struct {
	status int
	what   string
}

func (e *apiError) Error() string {
	return fmt.Sprintf("the management API answers %d for %s", e.status, e.what)
}

func (e *apiError) unauthorized() bool {
	return e.status == http.StatusUnauthorized || e.status == http.StatusForbidden
}

func newManagement(at address, timeout time.Duration) *management {
	if at.management == "" {
		return nil
	}
	transport := &http.Transport{TLSClientConfig: at.tls, TLSHandshakeTimeout: timeout, DisableKeepAlives: true}
	return &management{base: at.management, user: at.user, password: at.password, client: &http.Client{Timeout: timeout, Transport: transport}}
}

// get reads what is at path, which is escaped, and returns the server's time.
func (m *management) get(ctx context.Context, path string, into any) (now time.Time, err error) {
	if m == nil {
		return now, errNoManagement
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.base+"/api/"+path, nil)
	if err != nil {
		return now, errors.New("the management API's URL can't be one")
	}
	req.SetBasicAuth(m.user, m.password)
	answer, err := m.client.Do(req)
	if err != nil {
		var at *url.Error
		if errors.As(err, &at) {
			err = at.Err // without the URL
		}
		return now, fmt.Errorf("ask the management API: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return now, &apiError{answer.StatusCode, "/api/" + path}
	}
	// An answer without a date tells no time.
	now, _ = http.ParseTime(answer.Header.Get("Date"))
	body, err := io.ReadAll(io.LimitReader(answer.Body, answerAtMost))
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		return now, fmt.Errorf("read the management API's answer for /api/%s: %w", path, err)
	}
	return now, nil
}

// list reads all pages of a list.
func list[T any](ctx context.Context, m *management, path string) (all []T, err error) {
	for page := 1; page <= pagesAtMost; page++ {
		var got struct {
			Items []T `json:"items"`
			Pages int `json:"page_count"`
		}
		if _, err := m.get(ctx, fmt.Sprintf("%s&page=%d&page_size=%d", path, page, pageSize), &got); err != nil {
			return nil, err
		}
		if all = append(all, got.Items...); page >= got.Pages {
			return all, nil
		}
	}
	return all, fmt.Errorf("there are more than %d of /api/%s, and the rest was not looked at", pageSize*pagesAtMost, path)
}
