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

// poisonSKU is an article that the inventory learns of only in the repair.
const poisonSKU = "CD-LATE"

// demoRequests turns the feed's orders into requests. With poison some of them
// ask for an article that nobody has heard of.
func demoRequests(orders []shop.FeedOrder, poison int) ([]drill.Request, []shop.Level, error) {
	for i := range poison {
		o := &orders[(2*i+1)*len(orders)/(2*poison)]
		o.Items = []shop.Item{{SKU: poisonSKU, Quantity: 1}}
	}
	requests := make([]drill.Request, len(orders))
	for i, o := range orders {
		body, err := json.Marshal(o.OrderRequest)
		if err != nil {
			return nil, nil, fmt.Errorf("encode order of line %d: %w", o.Line, err)
		}
		requests[i] = drill.Request{Key: o.Key, Body: body}
		for _, it := range o.Items {
			requests[i].Items = append(requests[i].Items, drill.Line{SKU: it.SKU, Quantity: it.Quantity})
		}
	}
	var stock []shop.Level
	for i, l := range shop.Demand(orders) {
		if l.SKU == poisonSKU {
			continue
		}
		if i%10 == 0 { // some articles run out: their last orders are cancelled
			l.Quantity -= l.Quantity / 5
		}
		stock = append(stock, l)
	}
	return requests, stock, nil
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
