package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is a headless Chromium that notes what a page does.
type browser struct {
	ctx context.Context

	mu       sync.Mutex
	requests []string
	errors   []string
}

// openBrowser starts Chromium. Where there is none the test is skipped, but
// not where tests are meant to be complete.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("takes a browser; set SETTLE_TEST_ALL=1")
	}
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no Chromium here; install the package chromium")
		}
		t.Skip("THE REPORT PAGE IS NOT LOOKED AT: there is no Chromium here; install the package chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{ctx: ctx}
	if err := chromedp.Listen(ctx, b.note); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	_, err2 := chromedp.Call(ctx, log.Enable, cdp.Empty{})
	_, err3 := chromedp.Call(ctx, runtime.Enable, cdp.Empty{})
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatalf("listen to %s: %v", path, err)
	}
	// Only now: a time limit on what starts a browser ends it.
	b.ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	return b
}

func (b *browser) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *runtime.EventExceptionThrown:
		words, _ := json.Marshal(e.ExceptionDetails)
		b.errors = append(b.errors, "exception: "+string(words))
	case *runtime.EventConsoleAPICalled:
		words, _ := json.Marshal(e.Args)
		b.errors = append(b.errors, fmt.Sprintf("console %s: %s", e.Type, words))
	case *log.EventEntryAdded:
		b.errors = append(b.errors, fmt.Sprintf("%s: %s", e.Entry.Level, e.Entry.Text))
	}
}

// look opens a page in a window of this width, light or dark, and writes a
// picture of all of it.
func (b *browser) look(t *testing.T, page, scheme string, width int64, picture string) {
	t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	if err == nil {
		err = chromedp.Do(b.ctx, chromedp.EmulateViewport(width, 900), chromedp.Navigate("file://"+page))
	}
	if err != nil {
		t.Fatalf("look at %s: %v", page, err)
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatalf("take a picture of %s: %v", page, err)
	}
	if err := os.WriteFile(picture, png, 0o600); err != nil {
		t.Fatal(err)
	}
}

// ask evaluates an expression in the page.
func ask[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	answer, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("ask %s: %v", expression, err)
	}
	return answer
}

// drawn returns how many shapes that can be seen each drawing has.
const drawn = `Object.fromEntries([...document.querySelectorAll(".drawing")].map((d) => [d.id,
  [...d.querySelectorAll("svg path, svg rect, svg text")].filter((s) => { const b = s.getBoundingClientRect(); return b.width + b.height > 2; }).length]))`

func TestTheReportPageDrawsEverythingInARealBrowserWithoutAnErrorOrARequest(t *testing.T) {
	b := openBrowser(t)
	facts, r := shopFacts(t, 600)
	page := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(page, []byte(pageOf(t, facts, r)), 0o600); err != nil {
		t.Fatal(err)
	}
	pictures := os.Getenv("SETTLE_TEST_PICTURES")
	if pictures == "" {
		pictures = t.TempDir()
	}
	grounds := map[string]bool{}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 600} {
			b.look(t, page, scheme, width, filepath.Join(pictures, fmt.Sprintf("%s-%d.png", scheme, width)))
			b.expectDrawings(t, fmt.Sprintf("%s, %d px wide", scheme, width))
			grounds[ask[string](t, b, `getComputedStyle(document.body).backgroundColor + getComputedStyle(document.querySelector("svg text")).fill`)] = true
		}
	}
	if len(grounds) != 2 {
		t.Errorf("light and dark look like %v", grounds)
	}
	b.expectQuiet(t, page)
}

func (b *browser) expectDrawings(t *testing.T, how string) {
	t.Helper()
	shapes := ask[map[string]int](t, b, drawn)
	for id, least := range map[string]int{"open": 40, "rates": 15, "latencies": 15, "flows": 60} {
		if shapes[id] < least {
			t.Errorf("%s: the drawing %q has %d shapes, not %d", how, id, shapes[id], least)
		}
	}
	if ask[bool](t, b, `document.documentElement.scrollWidth > window.innerWidth`) {
		t.Errorf("%s: the page is wider than the window", how)
	}
}

// expectQuiet holds what the page did against the one request that it may
// make: itself.
func (b *browser) expectQuiet(t *testing.T, page string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.errors {
		t.Error(e)
	}
	for _, url := range b.requests {
		if url != "file://"+page {
			t.Errorf("it asked for %s", url)
		}
	}
	if len(b.requests) == 0 {
		t.Error("no request was seen, not even for the page")
	}
}

// hover moves the mouse over a drawing and returns what the page then says
// about the place.
func (b *browser) hover(t *testing.T, id string) string {
	t.Helper()
	box := ask[[4]float64](t, b, `(() => { const d = document.getElementById("`+id+`"); d.scrollIntoView({ block: "center" });
  const r = d.querySelector("svg").getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })()`)
	var said strings.Builder
	for x := 0.05; x < 1; x += 0.05 {
		if err := chromedp.Do(b.ctx, chromedp.MouseEvent(chromedp.MouseMoved, box[0]+x*box[2], max(box[1], 0)+min(box[3], 900)*0.45)); err != nil {
			t.Fatalf("move the mouse: %v", err)
		}
		said.WriteString(ask[string](t, b, `[...document.querySelectorAll("#`+id+` > div")].filter((d) => !d.querySelector("svg")).map((d) => d.textContent).join(" ")`))
	}
	return said.String()
}

func TestWhatStrangersWroteIsOnlyTextForABrowserTooAlsoUnderTheMouse(t *testing.T) {
	b := openBrowser(t)
	facts, r := hostileFacts(t)
	page := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(page, []byte(pageOf(t, facts, r)), 0o600); err != nil {
		t.Fatal(err)
	}
	b.look(t, page, "light", 1280, filepath.Join(t.TempDir(), "hostile.png"))
	for id, says := range map[string]string{"open": "orders not settled", "rates": "per second", "latencies": "%", "flows": "alert(1)"} {
		if said := b.hover(t, id); !strings.Contains(said, says) {
			t.Errorf("under the mouse %q says %q, not %q", id, said, says)
		}
	}
	if n := ask[int](t, b, "document.images.length"); n > 0 {
		t.Errorf("%d texts became images", n)
	}
	b.expectQuiet(t, page)
}

func TestTheBrowserStopsWhatAHostilePageWouldDo(t *testing.T) {
	b := openBrowser(t)
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	facts, r := shopFacts(t, 50)
	page := filepath.Join(t.TempDir(), "report.html")
	hostile := `<script>document.title="taken"</script><img src="` + server.URL + `/x.png"><script src="` + server.URL + `/x.js"></script>`
	if err := os.WriteFile(page, []byte(strings.Replace(pageOf(t, facts, r), "</main>", hostile+"</main>", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	b.look(t, page, "light", 1280, filepath.Join(t.TempDir(), "hostile.png"))
	if ask[string](t, b, "document.title") == "taken" {
		t.Error("a script that is not the page's own has run")
	}
	if asked.Load() > 0 {
		t.Error("it has loaded something")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.errors) < 3 {
		t.Errorf("the browser names no refusals: %v", b.errors)
	}
}
