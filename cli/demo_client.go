package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/settlemq/settle/drill"
	"github.com/settlemq/settle/examples/shop"
)

// orderClient places orders over HTTP as any client would.
type orderClient struct {
	base string
	http *http.Client
}

func newOrderClient(addr string) *orderClient {
	return &orderClient{
		base: "http://" + addr,
		http: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 32}},
	}
}

// place asks once. An answer that asking again can't change is ErrRefused.
func (c *orderClient) place(ctx context.Context, r drill.Request) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/orders", bytes.NewReader(r.Body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", r.Key)
	answer, err := c.http.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err != nil {
		return "", err
	}
	switch {
	case answer.StatusCode >= 500:
		return "", fmt.Errorf("%s: %s", answer.Status, body)
	case answer.StatusCode >= 300:
		return "", fmt.Errorf("%s: %s: %w", answer.Status, body, drill.ErrRefused)
	}
	var placed struct {
		OrderID string `json:"orderId"`
	}
	if err := json.Unmarshal(body, &placed); err != nil || placed.OrderID == "" {
		return "", fmt.Errorf("read answer %q: %w", body, err)
	}
	return placed.OrderID, nil
}

// act asks once for what a customer wants done with an order. A conflict is an
// answer: it can't be done any more.
func (c *orderClient) act(ctx context.Context, kind, orderID string) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/orders/"+orderID+"/"+kind, nil)
	if err != nil {
		return false, err
	}
	answer, err := c.http.Do(req)
	if err != nil {
		return false, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	switch {
	case err != nil:
		return false, err
	case answer.StatusCode == http.StatusOK:
		return true, nil
	case answer.StatusCode == http.StatusConflict:
		return false, nil
	case answer.StatusCode >= 500:
		return false, fmt.Errorf("%s: %s", answer.Status, body)
	}
	return false, fmt.Errorf("%s: %s: %w", answer.Status, body, drill.ErrRefused)
}

// ready returns nil once the entry takes orders.
func (c *orderClient) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/healthz", nil)
	if err != nil {
		return err
	}
	answer, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("order entry: %s", answer.Status)
	}
	return nil
}

// request is what a client sends for an order.
func request(o shop.OrderRequest, key string) (drill.Request, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return drill.Request{}, err
	}
	r := drill.Request{Key: key, CustomerID: o.CustomerID, Amount: int64(o.Amount), Body: body}
	for _, it := range o.Items {
		r.Items = append(r.Items, drill.Line{SKU: it.SKU, Quantity: it.Quantity})
	}
	return r, nil
}

// shellWords renders args as one would type them.
func shellWords(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = a
		if a == "" || strings.ContainsAny(a, " \t'\"$;&|") {
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}
