package shop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const feedHeader = "customer_id,date,quantity,amount\n"

func TestTheOrdersInsideTheProgramAreAllUsable(t *testing.T) {
	f, err := SampleFeed()
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Orders) != 5000 || f.Skipped != 0 {
		t.Fatalf("%d orders, %d skipped; want 5000 and 0", len(f.Orders), f.Skipped)
	}
	keys := map[string]bool{}
	for _, o := range f.Take(7000) {
		if keys[o.Key] {
			t.Fatalf("key %s is there twice", o.Key)
		}
		keys[o.Key] = true
	}
	again, _ := SampleFeed()
	if !slices.EqualFunc(f.Orders, again.Orders, func(a, b FeedOrder) bool { return a.Key == b.Key && a.hash() == b.hash() }) {
		t.Error("a second reading gives other orders")
	}
}

func TestLinesOfADerivedOrderAddUpToItsQuantity(t *testing.T) {
	f, _ := SampleFeed()
	lines := map[int]int{}
	for _, o := range f.Orders {
		lines[len(o.Items)]++
		seen := map[string]bool{}
		for _, it := range o.Items {
			if seen[it.SKU] || it.Quantity < 1 {
				t.Fatalf("line %d has items %v", o.Line, o.Items)
			}
			seen[it.SKU] = true
		}
	}
	if lines[1] == 0 || lines[2] == 0 || lines[3] == 0 || lines[1]+lines[2]+lines[3] != len(f.Orders) {
		t.Errorf("orders by number of lines: %v", lines)
	}
	var pieces int64
	for _, l := range Demand(f.Orders) {
		pieces += l.Quantity
	}
	want := 0
	for _, row := range strings.Split(strings.TrimSpace(string(sampleOrders)), "\n")[1:] {
		var customer, quantity int
		var rest string
		_, _ = fmt.Sscanf(strings.ReplaceAll(row, ",", " "), "%d %s %d", &customer, &rest, &quantity)
		want += quantity
	}
	if pieces != int64(want) {
		t.Errorf("demand is %d pieces, the file has %d", pieces, want)
	}
}

func TestAFeedIsReadHoweverItWasSaved(t *testing.T) {
	for name, text := range map[string]string{
		"plain":                   feedHeader + "1,1997-01-01,2,11.77\n",
		"without a last line end": feedHeader + "1,1997-01-01,2,11.77",
		"byte order mark":         "\ufeff" + feedHeader + "1,1997-01-01,2,11.77\n",
		"CRLF":                    strings.ReplaceAll("\ufeff"+feedHeader+"1,1997-01-01,2,11.77\n", "\n", "\r\n"),
		"quoted":                  feedHeader + `"1","1997-01-01","2","11.77"` + "\n",
		"blank lines":             feedHeader + "\n1,1997-01-01,2,11.77\n\n",
		"other column order":      "amount,date,customer_id,note,quantity\n11.77,1997-01-01,1,hello,2\n",
	} {
		f, err := ReadFeed(strings.NewReader(text), FeedConfig{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if o := f.Orders[0]; len(f.Orders) != 1 || o.Amount != 1177 || o.CustomerID != "1" {
			t.Errorf("%s: got %+v", name, f.Orders)
		}
	}
}

func TestABadFeedIsRefusedWithItsLines(t *testing.T) {
	good := "1,1997-01-01,1,11.77\n"
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "is empty"},
		{"only blank lines", "\n\n", "is empty"},
		{"only a header", feedHeader, "has no orders"},
		{"missing column", "customer_id,date,amount\n1,1997-01-01,11.77\n", "line 1: has no column quantity"},
		{"no header", good, "line 1: has no column customer_id"},
		{"short row", feedHeader + good + "1,1997-01-01,1\n", "line 3: has 3 fields; the header has 4"},
		{"long row", feedHeader + good + "1,1997-01-01,1,2,3\n", "line 3: has 5 fields"},
		{"quantity 0", feedHeader + "1,1997-01-01,0,11.77\n", `line 2: quantity "0" is not a whole number`},
		{"quantity of half a piece", feedHeader + "1,1997-01-01,0.5,11.77\n", `line 2: quantity "0.5"`},
		{"negative amount", feedHeader + "1,1997-01-01,1,-11.77\n", `line 2: amount "-11.77" is negative`},
		{"three decimals", feedHeader + "1,1997-01-01,1,11.775\n", `line 2: amount "11.775" has more than two decimals`},
		{"huge amount", feedHeader + "1,1997-01-01,1,99999999999999999999\n", "is above the limit"},
		{"amount in words", feedHeader + "1,1997-01-01,1,NaN\n", "is not an amount"},
		{"no such day", feedHeader + "1,1997-02-30,1,11.77\n", `line 2: date "1997-02-30"`},
		{"no customer", feedHeader + ",1997-01-01,1,11.77\n", "line 2: customer_id"},
		{"stray quotation mark", feedHeader + good + `"1,1997-01-01,1,11.77` + "\n" + good, "line 3: is not CSV"},
		{"endless line", feedHeader + strings.Repeat("9", 3*maxFeedLine) + "\n" + good, "line 2: is longer than"},
		{"two bad rows", feedHeader + good + "x\n" + good + "y\n", "line 3: has 1 fields; the header has 4; line 5"},
		{"binary", "\x00\x01\x02", "line 1: has no column"},
	} {
		_, err := ReadFeed(strings.NewReader(c.text), FeedConfig{})
		var bad *FeedError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestManyProblemsAreCountedNotListed(t *testing.T) {
	_, err := ReadFeed(strings.NewReader(feedHeader+strings.Repeat("x\n", 1000)), FeedConfig{})
	var bad *FeedError
	if !errors.As(err, &bad) || len(bad.Problems) != maxFeedProblems || bad.More != 1000-maxFeedProblems {
		t.Errorf("got %v", err)
	}
}

func TestSkippingBadRowsCountsThem(t *testing.T) {
	text := feedHeader + "1,1997-01-01,1,11.77\nbad\n2,1997-01-01,1,-1\n\"3,x\n4,1997-01-01,1,0.00\n"
	f, err := ReadFeed(strings.NewReader(text), FeedConfig{SkipBad: true})
	if err != nil || len(f.Orders) != 2 || f.Skipped != 3 {
		t.Errorf("%d orders, %d skipped, %v; want 2, 3", len(f.Orders), f.Skipped, err)
	}
	if _, err := ReadFeed(strings.NewReader("a,b\n1,2\n"), FeedConfig{SkipBad: true}); err == nil {
		t.Error("a missing column is skipped")
	}
}

func TestAFeedThatIsNotThereIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.csv")
	_, err := OpenFeed(path, FeedConfig{})
	var bad *FeedError
	if !errors.As(err, &bad) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFeed(path, FeedConfig{}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}

func FuzzReadFeed(f *testing.F) {
	f.Add(feedHeader+"1,1997-01-01,2,11.77\n", false)
	f.Add("\ufeff"+feedHeader+"1,1997-01-01,99,0.00\r\n\"2\",1997-01-01,1,5\r\n", true)
	f.Add(feedHeader+"\"1,1997\n,,,\n", true)
	f.Fuzz(func(t *testing.T, text string, skip bool) {
		feed, err := ReadFeed(strings.NewReader(text), FeedConfig{SkipBad: skip})
		var bad *FeedError
		if err != nil {
			if !errors.As(err, &bad) || len(bad.Problems) == 0 {
				t.Fatalf("untold error %v", err)
			}
			return
		}
		if len(feed.Orders) == 0 || (!skip && feed.Skipped > 0) {
			t.Fatalf("%d orders, %d skipped without an error", len(feed.Orders), feed.Skipped)
		}
		for _, o := range feed.Orders {
			if _, wrong, err := decodeOrder(strings.NewReader(orderJSON(t, o.OrderRequest))); err != nil || len(wrong) > 0 {
				t.Fatalf("order of line %d can't be placed: %v %v", o.Line, wrong, err)
			}
		}
	})
}
