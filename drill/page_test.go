package drill

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

func pageOf(t testing.TB, facts string, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := WritePage(t.Context(), &b, facts, r, []string{"settle dead replay marketing:5 --reason 'it answers again'"}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var inlineCode = regexp.MustCompile(`(?s)<(script|style)([^>]*)>(.*?)</(?:script|style)>`)

// elements returns every element of a page with its attributes, and fails if
// they are not nested as they should be. Scripts and styles are left empty.
func elements(page string) ([]xml.StartElement, error) {
	d := xml.NewDecoder(strings.NewReader(inlineCode.ReplaceAllString(page, "<$1$2></$1>")))
	d.Entity = map[string]string{"nbsp": " "}
	var all []xml.StartElement
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		if e, ok := token.(xml.StartElement); ok {
			all = append(all, e.Copy())
		}
	}
}

// loads lists what a browser would fetch for a page.
func loads(page string) ([]string, error) {
	all, err := elements(page)
	var found []string
	for _, e := range all {
		for _, a := range e.Attr {
			local := e.Name.Local == "a" && strings.HasPrefix(a.Value, "#")
			if !local && slices.Contains([]string{"src", "srcset", "href", "action", "formaction", "data", "poster", "background", "ping", "manifest"}, a.Name.Local) {
				found = append(found, e.Name.Local+" "+a.Value)
			}
			if strings.EqualFold(a.Value, "refresh") {
				found = append(found, "refresh")
			}
		}
	}
	for _, code := range inlineCode.FindAllStringSubmatch(page, -1) {
		if code[1] == "style" && (strings.Contains(code[3], "url(") || strings.Contains(code[3], "@import")) {
			found = append(found, "style sheet")
		}
	}
	return found, err
}

func TestThePageIsWholeAndLoadsNothing(t *testing.T) {
	facts, r := shopFacts(t, 300)
	page := pageOf(t, facts, r)
	if found, err := loads(page); err != nil || len(found) > 0 {
		t.Errorf("%v; it loads %v", err, found)
	}
	if len(page) > 3<<20 {
		t.Errorf("it has %d bytes", len(page))
	}
	for _, planted := range []string{
		`<img src="https://example.com/a.png"/>`, `<link href="a.css"/>`, `<a href="https://example.com">x</a>`,
		`<style>p { background: url(a.png) }</style>`, `<meta http-equiv="Refresh" content="1"/>`, `<p><b></p>`,
	} {
		if found, err := loads(strings.Replace(page, "</main>", planted+"</main>", 1)); err == nil && len(found) == 0 {
			t.Errorf("%s is not noticed", planted)
		}
	}
}

func TestThePageForbidsTheBrowserAllButItsOwnScripts(t *testing.T) {
	facts, r := shopFacts(t, 50)
	page := pageOf(t, facts, r)
	all, err := elements(page)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(e xml.StartElement) bool {
		return e.Name.Local == "meta" && slices.ContainsFunc(e.Attr, func(a xml.Attr) bool { return a.Value == "Content-Security-Policy" })
	})
	if i < 0 {
		t.Fatal("it has no policy")
	}
	policy := all[i].Attr[1].Value
	if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "connect-src") || strings.Contains(policy, "img-src") {
		t.Error(policy)
	}
	for _, code := range inlineCode.FindAllStringSubmatch(page, -1) {
		if code[1] == "script" && code[2] == "" && !strings.Contains(policy, digest(code[3])) {
			t.Errorf("the policy %s forbids a script of %d bytes", policy, len(code[3]))
		}
	}
}

func TestThePageSaysWhatTheFactsSay(t *testing.T) {
	facts, r := shopFacts(t, 400)
	page := pageOf(t, facts, r)
	o := r.Orders
	if o.Cancelled == 0 || o.Completed == 0 || r.Events.PublishedAgain == 0 || len(r.Letters) != 2 {
		t.Fatalf("the facts show too little: %+v", r)
	}
	for _, want := range []string{
		"Proof holds", "<b>" + number(o.Completed) + "</b>", "stock " + number(o.CancelledFor["stock"]), "<b>" + money(r.Money.Net) + "</b>",
		"2 left open on purpose", "coupon system: no answer within 300 ms", "replay marketing:5 --reason",
		"<td>" + r.Invariants[3].ID + "</td>", "<b>" + strconv.FormatUint(r.Seed, 10) + "</b>", "coupon-outage",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

func TestAViolationStandsAboveAllElseWithItsExamples(t *testing.T) {
	facts, r := shopFacts(t, 50)
	r.Invariants[20] = Invariant{ID: "M1", Name: "money is right", Checked: 50, Violations: 2, Examples: []string{"order_id=o-000007 captured=2"}}
	page := pageOf(t, facts, r)
	body := page[strings.Index(page, "<body>"):]
	first := func(text string) int { return strings.Index(body, text) }
	if first("Proof fails") < 0 || first("o-000007 captured=2") < 0 || first("o-000007 captured=2") > first(`class="drawing"`) {
		t.Error("the violation is not above the drawings")
	}
	if first("<td>M1</td>") < 0 || first("<td>M1</td>") > first("<td>I00</td>") {
		t.Error("the violation is not the first of the invariants")
	}
}

const hostileText = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x00\x1b[31m\u202e\xff\"'`${alert(3)}"

// hostileFacts are those of a drill whose strangers wrote what they liked.
func hostileFacts(t *testing.T) (string, *Report) {
	t.Helper()
	facts, r := shopFacts(t, 50)
	f, err := OpenFacts(t.Context(), t.TempDir()+"/f.sqlite")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	copyFacts(t, f, facts)
	for _, q := range []string{
		"UPDATE outbox SET event_type=event_type||?", "UPDATE outbox SET service=service||?", "UPDATE inbox SET consumer=consumer||?", "UPDATE subscription SET consumer=consumer||?",
		"UPDATE dead_letter SET reason=?", "UPDATE audit_log SET reason=?", "UPDATE outbox SET topic=?", "UPDATE orders SET status=status||? WHERE status='CANCELLED'",
		"UPDATE outside_ledger SET system=?",
	} {
		if _, err := f.db.ExecContext(t.Context(), q, hostileText); err != nil {
			t.Fatal(err)
		}
	}
	r.Letters = []Letter{{ID: hostileText, Service: hostileText, Class: hostileText, EventType: hostileText, Key: hostileText, Reason: hostileText}}
	r.Invariants[0].Violations, r.Invariants[0].Examples = 1, []string{hostileText}
	r.Marks[0].Name, r.Dir, r.Orders.CancelledFor = hostileText, hostileText, map[string]int64{hostileText: 1}
	return f.path(t), r
}

func TestWhatStrangersWroteIsOnlyText(t *testing.T) {
	facts, r := hostileFacts(t)
	page := pageOf(t, facts, r)
	all, err := elements(page)
	if err != nil {
		t.Fatal(err)
	}
	scripts := 0
	for _, e := range all {
		if e.Name.Local == "script" {
			scripts++
		}
		if e.Name.Local == "img" {
			t.Error("a text became an element")
		}
	}
	if scripts != 3 {
		t.Errorf("it has %d scripts", scripts)
	}
	if strings.Count(page, "alert(1)") < 5 {
		t.Error("the texts are missing")
	}
	for _, c := range page {
		if c != '\n' && c != '\t' && c != '\u00a0' && !unicode.IsGraphic(c) {
			t.Fatalf("it holds %q", c)
		}
	}
}

// path is the file that f is stored in.
func (f *Facts) path(t *testing.T) string {
	t.Helper()
	var path string
	if err := f.db.QueryRowContext(t.Context(), "SELECT file FROM pragma_database_list").Scan(&path); err != nil {
		t.Fatal(err)
	}
	return path
}

func copyFacts(t *testing.T, f *Facts, from string) {
	t.Helper()
	if _, err := f.db.ExecContext(t.Context(), "ATTACH ? AS other", from); err != nil {
		t.Fatal(err)
	}
	for table := range shopColumns {
		if _, err := f.db.ExecContext(t.Context(), "INSERT INTO "+table+" SELECT * FROM other."+table); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.db.ExecContext(t.Context(), "DETACH other"); err != nil {
		t.Fatal(err)
	}
}

func TestThePageOnlyReadsTheFacts(t *testing.T) {
	facts, r := shopFacts(t, 50)
	before, err := os.ReadFile(facts)
	if err != nil {
		t.Fatal(err)
	}
	pageOf(t, facts, r)
	after, err := os.ReadFile(facts)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("%v; the facts have changed", err)
	}
	if err := WritePage(t.Context(), io.Discard, facts+"-not-there", r, nil); err == nil {
		t.Error("facts that are not there make a page")
	}
}

func TestACurveCountsEveryOrderOnceAndStaysBounded(t *testing.T) {
	path, r := shopFacts(t, 300)
	f, err := readFacts(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for _, duration := range []float64{0, 0.003, 1, r.Duration, 3600, 400_000} {
		for _, most := range []int{ratePoints, openPoints} {
			c, err := f.curve(t.Context(), r.Began.UnixMicro(), duration, most)
			if err != nil {
				t.Fatal(err)
			}
			open := c.Open()
			if len(open) > most || open[len(open)-1] != 0 {
				t.Errorf("%v s: %d points, %d open in the end", duration, len(open), open[len(open)-1])
			}
			if duration == r.Duration && slices.Max(open) == 0 {
				t.Errorf("%v s: nothing was ever open", duration)
			}
		}
	}
}

func TestAHistogramHoldsAllAndItsMedianLiesWhereHalfIsBelow(t *testing.T) {
	path, r := shopFacts(t, 300)
	f, err := readFacts(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	all, err := f.histograms(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range all {
		sum, below, bin := 0.0, 0.0, 0
		for i, share := range h.Share {
			sum += share
			if i+1 < len(h.Edges) && h.Edges[i+1] <= h.P50 {
				below, bin = sum, i+1
			}
		}
		if sum < 99.999 || sum > 100.001 || below > 50 || below+h.Share[bin] < 50 {
			t.Errorf("%s: shares sum up to %v, %v lies below the median's bin with %v", h.Name, sum, below, h.Share[bin])
		}
	}
	if all[0].Count != r.Events.Published || all[1].Count != r.Orders.Completed {
		t.Errorf("%d events, %d orders", all[0].Count, all[1].Count)
	}
}

func TestThePageExplainsEveryFault(t *testing.T) {
	for _, name := range slices.Concat(FaultNames(), NodeFaultNames()) {
		if faultMeanings[name] == "" {
			t.Errorf("%s is not explained", name)
		}
	}
}

func TestNumbersAreWrittenForPeople(t *testing.T) {
	for got, want := range map[string]string{
		number(0): "0", number(-1234567): "-1,234,567", number(999): "999",
		span(0.0000421): "0.04 ms", span(0.0421): "42.1 ms", span(0.9996): "1.00 s", span(12.34): "12.3 s", span(119): "119 s", span(754.4): "12m34s", span(-1): "-1.00 s",
		money(-123456): "-1,234.56", money(5): "0.05", times(1, "time"): "1 time", times(2, "time"): "2 times",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
