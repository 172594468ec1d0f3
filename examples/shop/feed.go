package shop

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed data/orders.csv
var sampleOrders []byte

// maxFeedBytes bounds an input file; its orders are kept in memory.
const maxFeedBytes = 256 << 20

// maxFeedLine bounds one line.
const maxFeedLine = 64 << 10

// articles is how many stock keeping units the feed spreads its orders over.
const articles = 500

// FeedOrder is one order of an input file, ready to be placed.
type FeedOrder struct {
	// Key is its Idempotency-Key. It depends on the place in the file and on
	// the content alone, so that a feed that starts anew repeats its requests.
	Key string
	// Line is where the order stands in the file.
	Line int
	OrderRequest
}

// Feed is a file of orders with the columns customer_id, date, quantity and
// amount, read and checked wholly.
//
// The data has no product codes, so they are derived: an order of n pieces has
// 1 to min(3, n) lines whose quantities add up to n, and each line's article is
// CD-000 to CD-499 by a hash of customer, amount and line. The same row always
// gives the same lines.
type Feed struct {
	Orders []FeedOrder
	// Skipped counts bad rows that were passed over.
	Skipped int
}

// FeedConfig says how a feed is read.
type FeedConfig struct {
	// SkipBad passes over bad rows and counts them. Defaults to false: one bad
	// row refuses the file.
	SkipBad bool
}

// SampleFeed returns the 5,000 real orders inside the program.
func SampleFeed() (Feed, error) { return ReadFeed(bytes.NewReader(sampleOrders), FeedConfig{}) }

// OpenFeed reads a file. It returns a *FeedError for one that can't be used,
// also when it is not there.
func OpenFeed(path string, cfg FeedConfig) (Feed, error) {
	f, err := os.Open(path)
	if err != nil {
		return Feed{}, &FeedError{Source: path, Problems: []FeedProblem{{Reason: reasonOf(err)}}}
	}
	defer func() { _ = f.Close() }()
	feed, err := ReadFeed(f, cfg)
	var bad *FeedError
	if errors.As(err, &bad) {
		bad.Source = path
	}
	return feed, err
}

// reasonOf strips what a path error repeats.
func reasonOf(err error) string {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// ReadFeed reads a feed to its end. It takes a byte order mark and either kind
// of line end, and returns a *FeedError that names the lines at fault.
func ReadFeed(r io.Reader, cfg FeedConfig) (Feed, error) {
	in := bufio.NewReaderSize(&boundedReader{r: r, left: maxFeedBytes}, maxFeedLine)
	if mark, err := in.Peek(3); err == nil && string(mark) == "\ufeff" {
		_, _ = in.Discard(3)
	}
	f := feedReader{in: in, cfg: cfg}
	if err := f.read(); err != nil {
		return Feed{}, err
	}
	return f.feed, nil
}

// feedReader is one reading of a file. It splits lines itself, so that a stray
// quotation mark spoils its own line and not the rest of the file.
type feedReader struct {
	in      *bufio.Reader
	cfg     FeedConfig
	line    int
	columns map[string]int
	width   int
	feed    Feed
	bad     FeedError
}

func feedColumns() []string { return []string{"customer_id", "date", "quantity", "amount"} }

func (f *feedReader) read() error {
	for {
		fields, problem, err := f.next()
		switch {
		case errors.Is(err, io.EOF):
			return f.end()
		case err != nil:
			f.bad.add(f.line, "", reasonOf(err))
			return &f.bad
		case problem != "":
			f.refuse(FeedProblem{Line: f.line, Reason: problem})
		case f.columns == nil:
			if f.header(fields); len(f.bad.Problems) > 0 {
				return &f.bad
			}
		default:
			f.row(fields)
		}
	}
}

func (f *feedReader) end() error {
	switch {
	case len(f.bad.Problems) > 0:
	case f.columns == nil:
		f.bad.add(0, "", "is empty")
	case len(f.feed.Orders) == 0:
		f.bad.add(0, "", "has no orders")
	default:
		return nil
	}
	return &f.bad
}

// next returns the fields of the next line that is not blank, or what is wrong
// with it.
func (f *feedReader) next() (fields []string, problem string, err error) {
	for {
		text, err := f.in.ReadSlice('\n')
		f.line++
		if errors.Is(err, bufio.ErrBufferFull) {
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = f.in.ReadSlice('\n')
			}
			return nil, fmt.Sprintf("is longer than %d bytes", maxFeedLine), nil
		}
		if err != nil && (!errors.Is(err, io.EOF) || len(text) == 0) {
			return nil, "", err
		}
		line := strings.TrimRight(string(text), "\r\n")
		if line == "" {
			continue
		}
		if !strings.Contains(line, `"`) {
			return strings.Split(line, ","), "", nil
		}
		if fields, err = csv.NewReader(strings.NewReader(line)).Read(); err != nil {
			return nil, "is not CSV: a quotation mark is out of place", nil
		}
		return fields, "", nil
	}
}

func (f *feedReader) header(names []string) {
	f.columns, f.width = map[string]int{}, len(names)
	for i, name := range names {
		f.columns[strings.TrimSpace(name)] = i
	}
	for _, want := range feedColumns() {
		if _, ok := f.columns[want]; !ok {
			f.bad.add(f.line, "", fmt.Sprintf("has no column %s; the columns are %s", want, strings.Join(feedColumns(), ", ")))
		}
	}
}

func (f *feedReader) row(fields []string) {
	if len(fields) != f.width {
		f.refuse(FeedProblem{Line: f.line, Reason: fmt.Sprintf("has %d fields; the header has %d", len(fields), f.width)})
		return
	}
	o, problem := f.order(f.line, fields)
	if problem.Reason != "" {
		f.refuse(problem)
		return
	}
	f.feed.Orders = append(f.feed.Orders, o)
}

func (f *feedReader) refuse(p FeedProblem) {
	if f.cfg.SkipBad && f.columns != nil {
		f.feed.Skipped++
		return
	}
	f.bad.add(p.Line, p.Column, p.Reason)
}

func (f *feedReader) order(line int, row []string) (FeedOrder, FeedProblem) {
	field := func(name string) string { return strings.TrimSpace(row[f.columns[name]]) }
	bad := func(column, reason string) (FeedOrder, FeedProblem) {
		return FeedOrder{}, FeedProblem{Line: line, Column: column, Reason: fmt.Sprintf("%q %s", field(column), reason)}
	}
	customer := field("customer_id")
	if why := badName(customer); why != "" {
		return bad("customer_id", why)
	}
	if _, err := time.Parse(time.DateOnly, field("date")); err != nil {
		return bad("date", "is not a date like 1997-01-31")
	}
	quantity, err := strconv.Atoi(field("quantity"))
	if err != nil || quantity < 1 || quantity > MaxQuantity {
		return bad("quantity", fmt.Sprintf("is not a whole number from 1 to %d", MaxQuantity))
	}
	amount, err := ParseCents(field("amount"))
	if err != nil {
		return bad("amount", err.Error())
	}
	n := len(f.feed.Orders) + 1
	o := FeedOrder{Line: line, OrderRequest: OrderRequest{CustomerID: customer, Amount: amount, Items: deriveItems(customer, amount, quantity)}}
	o.Key = fmt.Sprintf("feed-%06d-%08x", n, hash32(strings.Join(row, ",")))
	return o, FeedProblem{}
}

// deriveItems makes the lines of an order; see Feed.
func deriveItems(customer string, amount Cents, quantity int) []Item {
	seed := int(hash32(fmt.Sprintf("%s/%d", customer, amount)))
	lines := 1 + seed/articles%min(3, quantity)
	items := make([]Item, lines)
	for i := range items {
		items[i] = Item{SKU: fmt.Sprintf("CD-%03d", (seed+i*7)%articles), Quantity: quantity / lines}
	}
	items[0].Quantity += quantity % lines
	return items
}

func hash32(s string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s))
	return h.Sum32() & 0x7fffffff
}

// Take returns the first n orders. A feed that has fewer starts again, with
// new keys for each round.
func (f Feed) Take(n int) []FeedOrder {
	taken := make([]FeedOrder, 0, n)
	for i := range n {
		o := f.Orders[i%len(f.Orders)]
		if round := i / len(f.Orders); round > 0 {
			o.Key = fmt.Sprintf("%s-%d", o.Key, round+1)
		}
		taken = append(taken, o)
	}
	return taken
}

// Demand returns what orders ask for in all, by article.
func Demand(orders []FeedOrder) []Level {
	sum := map[string]int64{}
	for _, o := range orders {
		for _, it := range o.Items {
			sum[it.SKU] += int64(it.Quantity)
		}
	}
	levels := make([]Level, 0, len(sum))
	for sku, n := range sum {
		levels = append(levels, Level{SKU: sku, Quantity: n})
	}
	slices.SortFunc(levels, func(a, b Level) int { return strings.Compare(a.SKU, b.SKU) })
	return levels
}

// boundedReader fails instead of reading more than left bytes.
type boundedReader struct {
	r    io.Reader
	left int
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("is larger than %d MiB", maxFeedBytes>>20)
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
