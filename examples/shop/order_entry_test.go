package shop

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// entry is an order service's HTTP entry without relay and consumer.
type entry struct {
	orders    *orderService
	committer *committer
	commits   atomic.Int64
	url       string
}

func newEntry(t *testing.T, queue, most int) *entry {
	t.Helper()
	return newEntryIn(t, t.TempDir(), queue, most, entryTimeouts{})
}

func newEntryIn(t *testing.T, dir string, queue, most int, timeouts entryTimeouts) *entry {
	t.Helper()
	m, err := openMember(t.Context(), "order", Config{Dir: dir, Rules: Rules{Blocked: []string{"mallory"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.db.Close() })
	orders := m.participant.(*orderService)
	e := &entry{orders: orders}
	c := newCommitter(orders, queue, most, func(point string) {
		if point == "order.after_commit" {
			e.commits.Add(1)
		}
	})
	e.committer = c
	h := newOrderHandler(newView(crowd{m}), c, timeouts, slog.New(slog.DiscardHandler))
	server := httptest.NewUnstartedServer(nil)
	server.Config = h.server()
	server.Start()
	e.url = server.URL
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		server.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return e
}

// post places an order and returns status, headers and body.
func (e *entry) post(t testing.TB, key, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, e.url+"/orders", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, nil, ""
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return do(t, req)
}

// postTwoKeys places an order under two keys.
func (e *entry) postTwoKeys(t testing.TB) (int, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, e.url+"/orders", strings.NewReader(goodOrder))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"k", "k2"}}
	status, _, body := do(t, req)
	return status, body
}

func do(t testing.TB, req *http.Request) (int, http.Header, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0, nil, ""
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

func (e *entry) get(t testing.TB, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, e.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	status, _, body := do(t, req)
	return status, body
}

func (e *entry) count(t testing.TB, table string) int64 {
	t.Helper()
	return number(t, e.orders.db.Reader, "SELECT COUNT(*) FROM "+table)
}

const goodOrder = `{"customerId":"c","amount":"11.77","items":[{"sku":"a","quantity":1},{"sku":"b","quantity":2}]}`

func TestAnOrderIsStoredWithItsLinesAndItsEvent(t *testing.T) {
	onEachDatabase(t, testAnOrderIsStoredWithItsLinesAndItsEvent)
}

func testAnOrderIsStoredWithItsLinesAndItsEvent(t *testing.T, dir string) {
	e := newEntryIn(t, dir, 10, 10, entryTimeouts{})
	trace := strings.Repeat("ab", 16)
	status, header, body := e.post(t, "k1", goodOrder, "Traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
	id := OrderID("k1")
	if status != http.StatusCreated || header.Get("Location") != "/orders/"+id || !strings.Contains(body, id) {
		t.Fatalf("got %d %v %s", status, header, body)
	}
	if e.count(t, "t_order") != 1 || e.count(t, "t_order_item") != 2 || e.count(t, "t_outbox_event") != 2 {
		t.Error("order, two lines, one event and one timer are not all there")
	}
	var kind, key, payload, traceID string
	var seq int64
	err := e.orders.db.Reader.QueryRow(`SELECT event_type, aggregate_id, aggregate_seq, trace_id, payload FROM t_outbox_event WHERE not_before IS NULL`).Scan(&kind, &key, &seq, &traceID, &payload)
	if err != nil || kind != lifecycle.OrderCreated || key != id || seq != 1 || traceID != trace {
		t.Errorf("event %s of %s with seq %d, trace %s: %v", kind, key, seq, traceID, err)
	}
	var facts orderFacts
	if err := json.Unmarshal([]byte(payload), &facts); err != nil || facts.Amount != 1177 || len(facts.Items) != 2 || facts.Pay != PayNow {
		t.Errorf("payload %s: %v", payload, err)
	}
	code, shown := e.get(t, "/orders/"+id)
	var o OrderStatus
	if err := json.Unmarshal([]byte(shown), &o); err != nil || code != 200 || o.Status != lifecycle.Created || o.Settled || o.Waiting != "order.created waits to be published" || o.Amount != 1177 || len(o.Items) != 2 {
		t.Errorf("shown as %d %s", code, shown)
	}
}

func TestTheSameRequestGivesTheSameOrder(t *testing.T) {
	onEachDatabase(t, testTheSameRequestGivesTheSameOrder)
}

func testTheSameRequestGivesTheSameOrder(t *testing.T, dir string) {
	e := newEntryIn(t, dir, 10, 10, entryTimeouts{})
	_, _, first := e.post(t, "k1", goodOrder)
	same := `{"items":[{"sku":"b","quantity":2},{"quantity":1,"sku":"a"}],"amount":11.77,"customerId":"c"}`
	status, _, again := e.post(t, "k1", same)
	if status != http.StatusOK || again != first {
		t.Errorf("got %d %s; want 200 %s", status, again, first)
	}
	status, header, body := e.post(t, "k1", strings.Replace(goodOrder, "11.77", "11.78", 1))
	if status != http.StatusConflict || header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("another order under the key: %d %s", status, body)
	}
	if e.count(t, "t_order") != 1 || e.count(t, "t_outbox_event") != 2 {
		t.Error("there is more than one order, or event")
	}
}

func TestFiftyEqualRequestsAtOnceMakeOneOrder(t *testing.T) {
	onEachDatabase(t, testFiftyEqualRequestsAtOnceMakeOneOrder)
}

func testFiftyEqualRequestsAtOnceMakeOneOrder(t *testing.T, dir string) {
	e := newEntryIn(t, dir, 100, 16, entryTimeouts{})
	var codes [600]atomic.Int64
	var clients sync.WaitGroup
	for range 50 {
		clients.Go(func() {
			status, _, _ := e.post(t, "k1", goodOrder)
			codes[status].Add(1)
		})
	}
	clients.Wait()
	if codes[201].Load() != 1 || codes[200].Load() != 49 {
		t.Errorf("%d × 201, %d × 200; want 1 and 49", codes[201].Load(), codes[200].Load())
	}
	if e.count(t, "t_order") != 1 || e.count(t, "t_outbox_event") != 2 {
		t.Error("there is more than one order, or event")
	}
}

func TestBadRequestsAreRefusedWithReasonsAndLeaveNothing(t *testing.T) {
	e := newEntry(t, 10, 10)
	for _, c := range []struct {
		name, key, body string
		headers         []string
		status          int
		want            string
	}{
		{"no key", "", goodOrder, nil, 400, "Idempotency-Key is empty"},
		{"long key", strings.Repeat("k", 65), goodOrder, nil, 400, "limit is 64"},
		{"key with a space", "a b", goodOrder, nil, 400, "printable"},
		{"no content type", "k", goodOrder, []string{"Content-Type", ""}, 415, "application/json"},
		{"unknown content type", "k", goodOrder, []string{"Content-Type", "text/xml"}, 415, "application/json"},
		{"broken content type", "k", goodOrder, []string{"Content-Type", ";;"}, 415, "application/json"},
		{"cut JSON", "k", goodOrder[:20], nil, 400, "not one JSON object"},
		{"two objects", "k", goodOrder + goodOrder, nil, 400, "not one JSON object"},
		{"oversized body", "k", goodOrder + strings.Repeat(" ", maxBody), nil, 413, "64 KiB"},
		{"oversized text", "k", `{"customerId":"` + strings.Repeat("x", maxBody) + `"}`, nil, 413, "64 KiB"},
		{"negative amount", "k", strings.Replace(goodOrder, "11.77", "-1", 1), nil, 422, `"field":"amount","reason":"is negative"`},
		{"three decimals", "k", strings.Replace(goodOrder, "11.77", "1.234", 1), nil, 422, "two decimals"},
		{"huge amount", "k", strings.Replace(goodOrder, "11.77", strings.Repeat("9", 400), 1), nil, 422, "above the limit"},
		{"quantity 0", "k", strings.Replace(goodOrder, `"quantity":1`, `"quantity":0`, 1), nil, 422, "items[0].quantity"},
		{"10,000 items", "k", `{"customerId":"c","amount":"1","items":[` + strings.Repeat("1,", 9999) + `1]}`, nil, 422, "has 10000 lines; it must have 1 to 100"},
		{"10,000 whole items", "k", `{"customerId":"c","amount":"1","items":[` + strings.Repeat(`{"sku":"a","quantity":1},`, 9999) + `1]}`, nil, 413, "64 KiB"},
		{"paid some day", "k", strings.Replace(goodOrder, `{"c`, `{"pay":"some day","c`, 1), nil, 422, `"field":"pay"`},
		{"a name twice", "k", strings.Replace(goodOrder, `{"c`, `{"amount":"1","c`, 1), nil, 400, `the name \"amount\" is in it twice`},
		{"a name twice in a line", "k", strings.Replace(goodOrder, `"quantity":1`, `"quantity":1,"quantity":2`, 1), nil, 400, "quantity"},
		{"above the limit", "k", strings.Replace(goodOrder, "11.77", "10000.01", 1), nil, 422, "the order is refused: an order of 10000.01 is above the limit of 10000.00"},
		{"a blocked customer", "k", strings.Replace(goodOrder, `"c"`, `"mallory"`, 1), nil, 422, "the order is refused: orders of this customer are not taken"},
	} {
		status, header, body := e.post(t, c.key, c.body, c.headers...)
		if status != c.status || !strings.Contains(body, c.want) || header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: got %d %s %s; want %d with %q", c.name, status, header.Get("Content-Type"), body, c.status, c.want)
		}
	}
	if e.count(t, "t_order") != 0 || e.count(t, "t_outbox_event") != 0 {
		t.Error("a refused request left something behind")
	}
	if status, body := e.get(t, "/orders/none"); status != 404 || !strings.Contains(body, "there is no order none") {
		t.Errorf("unknown order: %d %s", status, body)
	}
	if status, body := e.get(t, "/orders/"+strings.Repeat("x", 8000)); status != 404 || !strings.Contains(body, "there is no order of this id") || len(body) > 200 {
		t.Errorf("unknown order with a long id: %d, %d bytes: %.300s", status, len(body), body)
	}
	if status, body := e.postTwoKeys(t); status != 400 || !strings.Contains(body, "more than once") {
		t.Errorf("two keys: %d %s", status, body)
	}
	if status, _ := e.get(t, "/healthz"); status != 200 {
		t.Errorf("health: %d", status)
	}
	// The key of what was refused is as good as new.
	if status, _, body := e.post(t, "k", goodOrder); status != 201 {
		t.Errorf("the same key with a good order: %d %s", status, body)
	}
}

func TestAnUnknownArticleIsTakenAndLeftToTheInventory(t *testing.T) {
	e := newEntry(t, 10, 10)
	if status, _, body := e.post(t, "k", strings.Replace(goodOrder, `"sku":"a"`, `"sku":"nobody-has-it"`, 1)); status != 201 {
		t.Errorf("%d %s", status, body)
	}
}

func TestARepeatIsAnsweredAsBeforeAlsoUnderStricterRules(t *testing.T) {
	e := newEntry(t, 10, 10)
	e.post(t, "k", goodOrder)
	e.orders.rules.RefuseAbove = 1
	if status, _, body := e.post(t, "k", goodOrder); status != 200 {
		t.Errorf("the repeat: %d %s", status, body)
	}
	if status, _, body := e.post(t, "k2", goodOrder); status != 422 {
		t.Errorf("a new one: %d %s", status, body)
	}
}

func TestUnknownPathsAndWrongMethodsAreProblemsToo(t *testing.T) {
	e := newEntry(t, 10, 10)
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/", 404, ""},
		{"GET", "/order", 404, ""},
		{"POST", "/orders/o-1/refund", 404, ""},
		{"GET", "/orders/", 404, ""},
		{"POST", "//orders", 404, ""},
		{"GET", "/orders//o-1", 404, ""},
		{"GET", "/orders/../healthz", 404, ""},
		{"GET", "//", 404, ""},
		{"GET", "/orders/none", 404, ""},
		{"GET", "/orders", 405, "POST"},
		{"DELETE", "/orders/o-1", 405, "GET, HEAD"},
		{"GET", "/orders/o-1/cancel", 405, "POST"},
		{"PUT", "/orders/o-1/pay", 405, "POST"},
		{"POST", "/healthz", 405, "GET, HEAD"},
	} {
		req, err := http.NewRequest(c.method, e.url+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		status, header, body := do(t, req)
		var p Problem
		if err := json.Unmarshal([]byte(body), &p); err != nil || p.Status != c.status || p.Detail == "" {
			t.Errorf("%s %s: %s: %v", c.method, c.path, body, err)
		}
		if status != c.status || header.Get("Allow") != c.allow || header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: %d %v", c.method, c.path, status, header)
		}
	}
}

// drip sends text on a new connection, then one byte after the other until the
// server has had enough. It returns what the server said.
func (e *entry) drip(t *testing.T, text, drop string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(e.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(conn) // a reset is an end as well
		ended <- string(b)
	}()
	_, _ = io.WriteString(conn, text)
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		select {
		case said := <-ended:
			tick.Stop()
			return said
		case <-tick.C:
			_, _ = io.WriteString(conn, drop)
		}
	}
}

func TestAClientThatDripsItsRequestIsCutOff(t *testing.T) {
	e := newEntryIn(t, t.TempDir(), 10, 10, entryTimeouts{Header: 100 * time.Millisecond, Body: time.Minute})
	patient := newEntryIn(t, t.TempDir(), 10, 10, entryTimeouts{Header: time.Minute, Body: 200 * time.Millisecond})
	began := time.Now()
	head := "POST /orders HTTP/1.1\r\nHost: shop\r\nContent-Type: application/json\r\nIdempotency-Key: k\r\n"
	if said := e.drip(t, head, "X"); strings.Contains(said, "201") {
		t.Errorf("a head that never ends: %s", said)
	}
	if said := patient.drip(t, head+"Content-Length: 60000\r\n\r\n{", " "); !strings.Contains(said, "408 Request Timeout") || !strings.Contains(said, "the body did not arrive") {
		t.Errorf("a body that never ends: %s", said)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if e.count(t, "t_order")+patient.count(t, "t_order") != 0 {
		t.Error("something was stored")
	}
}
