package drill

import (
	"context"
	"crypto/sha256"
	"database/sql"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"unicode"
)

//go:embed page/page.html
var pageHTML string

//go:embed page/page.css
var pageStyle string

//go:embed page/page.js
var pageScript string

// Apache ECharts draws; page/echarts/README.md has its version and licence.
//
//go:embed page/echarts/echarts.min.js
var pageLibrary string

// A page shows so many faults and dead letters one by one, the first of them.
const (
	maxMarks   = 1000
	maxLetters = 50
)

// page is what the template shows.
type page struct {
	*Report
	Holds    bool
	Verdict  string
	Story    string
	Wrong    []string // what does not hold beside the invariants, a sentence each
	Open     int64    // orders that have not ended
	Waiting  []Letter // the first of the open dead letters
	Tiles    []tile
	Examined int64       // rows, by all invariants
	Ranked   []Invariant // the violated ones first
	Drawings drawings
	Trails   []trail
	Commands []string

	Policy  string // of the browser: what the page may load, which is nothing
	Style   template.CSS
	Library template.JS
	Script  template.JS
}

// drawings are the figures behind the drawings, for the script and for the
// tables below them. Times are seconds since the drill began.
type drawings struct {
	Duration float64     `json:"duration"`
	Rates    curve       `json:"rates"`
	Open     curve       `json:"open"`
	Marks    []Mark      `json:"marks"`
	Latency  []histogram `json:"latency"`
	Flow     flow        `json:"flow"`
}

// WritePage writes the proof as one HTML page that is complete in itself: it
// loads nothing, and forbids the browser to. facts is the path of the scratch
// database that the drill left, which is only read. commands are what a person
// may enter next about the dead letters that are open, a line each. The page
// is bounded whatever the number of orders.
func WritePage(ctx context.Context, w io.Writer, facts string, r *Report, commands []string) error {
	f, err := readFacts(facts)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	p, err := f.page(ctx, r)
	if err != nil {
		return fmt.Errorf("make report page: %w", err)
	}
	p.Commands = commands
	t, err := template.New("page").Funcs(pageWords).Parse(pageHTML)
	if err != nil {
		return fmt.Errorf("make report page: %w", err)
	}
	if err := t.Execute(w, p); err != nil {
		return fmt.Errorf("write report page: %w", err)
	}
	return nil
}

// readFacts opens the scratch database of a drill that has ended.
func readFacts(path string) (*Facts, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=query_only(1)")
	if err != nil {
		return nil, fmt.Errorf("open scratch database: %w", err)
	}
	db.SetMaxOpenConns(1)
	return &Facts{db: db}, nil
}

func (f *Facts) page(ctx context.Context, r *Report) (*page, error) {
	p := &page{
		Report: r, Wrong: failuresBesideInvariants(r), Open: r.Orders.Accepted - r.Orders.Completed - r.Orders.Cancelled, Waiting: r.Letters[:min(len(r.Letters), maxLetters)],
		Story: story(r), Tiles: tiles(r), Ranked: rank(r.Invariants),
		Style: template.CSS(pageStyle), Library: template.JS(pageLibrary), Script: template.JS(pageScript),
	}
	p.Holds = len(r.Failures()) == 0 && r.Settled()
	p.Verdict = verdict(r, len(r.Failures()))
	for _, inv := range r.Invariants {
		p.Examined += inv.Checked
	}
	p.Policy = "default-src 'none'; style-src 'unsafe-inline'; script-src " + digest(pageLibrary) + " " + digest(pageScript) + "; base-uri 'none'; form-action 'none'"
	var err error
	began := r.Began.UnixMicro()
	if p.Drawings, err = f.drawings(ctx, r, began); err != nil {
		return nil, err
	}
	p.Trails, err = f.trails(ctx, r, began)
	return p, err
}

func (f *Facts) drawings(ctx context.Context, r *Report, began int64) (drawings, error) {
	d := drawings{Duration: r.Duration, Marks: slices.Clone(r.Marks[:min(len(r.Marks), maxMarks)])}
	for i := range d.Marks {
		d.Marks[i].Name = plain(d.Marks[i].Name)
	}
	var err error
	if d.Rates, err = f.curve(ctx, began, r.Duration, ratePoints); err != nil {
		return d, err
	}
	if d.Open, err = f.curve(ctx, began, r.Duration, openPoints); err != nil {
		return d, err
	}
	if d.Latency, err = f.histograms(ctx, r); err != nil {
		return d, err
	}
	d.Flow, err = f.flow(ctx, r.Duration)
	return d, err
}

// digest is how a policy names a script that may run.
func digest(script string) string {
	sum := sha256.Sum256([]byte(script))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// failuresBesideInvariants are those that have no table of their own.
func failuresBesideInvariants(r *Report) []string {
	held := *r
	held.Invariants = slices.Clone(r.Invariants)
	for i := range held.Invariants {
		held.Invariants[i].Violations = 0
	}
	all := held.Failures()
	if !r.Settled() {
		all = slices.Insert(all, 0, "not everything settled in time")
	}
	return all
}

// rank puts the violated ones first and keeps the order otherwise.
func rank(all []Invariant) []Invariant {
	ranked := slices.Clone(all)
	slices.SortStableFunc(ranked, func(a, b Invariant) int {
		return boolInt(b.Violations > 0) - boolInt(a.Violations > 0)
	})
	return ranked
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// maxPlain bounds what one text from elsewhere may take of the page.
const maxPlain = 300

// plain makes a text that came from elsewhere fit to be shown: what can't be
// seen, or would turn the direction of what follows, becomes a replacement
// character. Its escaping is the template's affair.
func plain(s string) string {
	runes := []rune(strings.TrimSpace(s))
	more := len(runes) > maxPlain
	if more {
		runes = runes[:maxPlain]
	}
	for i, r := range runes {
		switch {
		case r == '\n' || r == '\t':
			runes[i] = ' '
		case !unicode.IsGraphic(r):
			runes[i] = unicode.ReplacementChar
		}
	}
	if more {
		return string(runes) + " …"
	}
	return string(runes)
}
