package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/settlemq/settle/drill"
	"github.com/settlemq/settle/examples/shop"
)

func (a *app) loadCommand() *cobra.Command {
	var (
		target, stock string
		rate          float64
		length        time.Duration
		asJSON        bool
	)
	c := &cobra.Command{
		Use:   "load",
		Short: "Place orders at a fixed rate and tell what became of them",
		Long: "Load places real orders at a fixed rate, whatever becomes of those before (open loop): latency counts from\n" +
			"when an order was due, so a shop that stalls can't hide what it made wait. An order that was shed (503) or\n" +
			"not answered is not placed again.\n\nExit code 0: every order was answered. 1: some were not. 3: none was.",
		Args: exactly(0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			u, err := url.Parse(target)
			if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
				return usagef("--url %q is not the address of a shop, for instance http://127.0.0.1:8080", target)
			}
			orders, err := loadOrders(rate, length)
			if err != nil {
				return err
			}
			if stock != "" {
				if there, _ := shop.Holds(stock); !there {
					return usagef("there is no shop in %s; name the directory of one with --stock", stock)
				}
				if err := shop.Stock(c.Context(), stock, shop.Demand(orders)...); err != nil {
					return unreachablef("%w", err)
				}
			}
			load := drill.Load{Rate: rate, For: length, Place: placeLoad(strings.TrimSuffix(target, "/"), orders), Progress: func(offered, of int) {
				_, _ = fmt.Fprintf(a.Err, "%d of %d orders placed, about %s left\n", offered, of, time.Duration(float64(of-offered)/rate*float64(time.Second)).Round(time.Second))
			}}
			r, err := load.Run(c.Context())
			if err != nil {
				return usagef("%w", err)
			}
			return a.printLoad(r, asJSON)
		},
	}
	c.Flags().StringVar(&target, "url", "http://127.0.0.1:8080", "address of the shop's HTTP entry")
	c.Flags().Float64Var(&rate, "rate", 100, "orders per second")
	c.Flags().DurationVar(&length, "for", 10*time.Second, "how long")
	c.Flags().StringVar(&stock, "stock", "", "stock what will be ordered in the shop of this directory first")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// loadOrders returns as many orders as will be placed, with keys of this run.
func loadOrders(rate float64, length time.Duration) ([]shop.FeedOrder, error) {
	n := rate * length.Seconds()
	if !(n >= 1 && n <= 1_000_000) { // not a number is neither
		return nil, usagef("--rate %v for %s makes %.0f orders; it must be 1 to 1000000", rate, length, n)
	}
	feed, err := shop.SampleFeed()
	if err != nil {
		return nil, err
	}
	orders := feed.Take(int(n))
	run := "load-" + strings.ToLower(rand.Text()[:8]) + "-"
	for i := range orders {
		orders[i].Key = run + strconv.Itoa(i)
	}
	return orders, nil
}

// placeLoad returns what sends the i-th order once.
func placeLoad(base string, orders []shop.FeedOrder) func(ctx context.Context, i int) drill.Outcome {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	return func(ctx context.Context, i int) drill.Outcome {
		body, err := json.Marshal(orders[i].OrderRequest)
		if err != nil {
			return drill.Failed
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/orders", bytes.NewReader(body))
		if err != nil {
			return drill.Failed
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", orders[i].Key)
		answer, err := client.Do(req)
		if err != nil {
			return drill.Failed
		}
		defer func() { _ = answer.Body.Close() }()
		if _, err := io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)); err != nil {
			return drill.Failed
		}
		switch code := answer.StatusCode; {
		case code == http.StatusCreated:
			return drill.Accepted
		case code == http.StatusOK:
			return drill.Repeated
		case code == http.StatusServiceUnavailable && answer.Header.Get("Retry-After") != "":
			return drill.Shed
		case code >= 400 && code < 500:
			return drill.Refused
		}
		return drill.Failed
	}
}

func (a *app) printLoad(r *drill.LoadReport, asJSON bool) error {
	if asJSON {
		if err := printJSON(a.Out, r); err != nil {
			return err
		}
	} else {
		ms := func(p drill.Percentiles) string {
			return fmt.Sprintf("p50 %.1f  p90 %.1f  p99 %.1f  p99.9 %.1f  max %.1f ms", p.P50*1e3, p.P90*1e3, p.P99*1e3, p.P999*1e3, p.Max*1e3)
		}
		if _, err := fmt.Fprintf(a.Out, "due        %d orders at %g/s in %.1f s\naccepted   %d (%.0f/s)   %s\nrepeated   %d\nshed       %d   %s\nrefused    %d\nfailed     %d\nunsent     %d\n",
			r.Due, r.Rate, r.Seconds, r.Accepted, r.AcceptedPerSecond, ms(r.LatencySeconds), r.Repeated, r.Shed, ms(r.ShedSeconds), r.Refused, r.Failed, r.Unsent); err != nil {
			return err
		}
	}
	switch {
	case r.Failed+r.Unsent == 0:
		return nil
	case r.Accepted+r.Repeated+r.Shed+r.Refused == 0:
		return unreachablef("no order was answered; is the shop running?")
	}
	return finding(fmt.Errorf("%d orders were not answered and %d could not be sent", r.Failed, r.Unsent))
}
