package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/eodispatch/eodispatch/test/installed"
)

// within is how long the browser may take until a page comes to a state, on a machine however busy.
const within = 3 * time.Minute

// tab is a tab of a real headless browser with a profile of its own. It records all requests.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	requests []string
	dialogs  []string // texts of alert and the like
}

// openTab starts a browser. If chromium is not installed, it skips the test, or fails it in CI.
func openTab(t *testing.T) *tab {
	t.Helper()
	path := installed.Program(t, "chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.WindowSize(1280, 900), chromedp.WSURLReadTimeout(within),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("lang", "en-GB"))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	must(t, chromedp.Listen(ctx, b.record))
	call(b, network.Enable, network.EnableParams{})
	call(b, page.Enable, page.EnableParams{})
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// call sends a command of the DevTools protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], parameters P) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, command, parameters)
	must(b.t, err)
}

func (b *tab) record(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *network.EventWebSocketCreated:
		b.requests = append(b.requests, e.URL)
	case *page.EventJavascriptDialogOpening:
		b.dialogs = append(b.dialogs, e.Message)
		// fails only if the tab is closed
		go chromedp.Call(b.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true})
	}
}

// opens navigates to an address.
func (b *tab) opens(address string) {
	b.t.Helper()
	must(b.t, chromedp.Do(b.ctx, chromedp.Navigate(address)))
}

// evaluate evaluates an expression in the page as a user's gesture, and returns its value, awaited.
func evaluate[T any](b *tab, expression string) (T, error) {
	yes := true
	return chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, func(p *runtime.EvaluateParams) {
		p.AwaitPromise, p.UserGesture = &yes, &yes
	}))
}

// until waits until an expression is true in the page.
func (b *tab) until(expression string) {
	b.t.Helper()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	var err error
	for end := time.Now().Add(within); time.Now().Before(end); <-again.C {
		var is bool
		if is, err = evaluate[bool](b, "Boolean("+expression+")"); is && err == nil {
			return
		}
	}
	at, _ := evaluate[string](b, `location.href + "\n" + document.body?.innerText`)
	b.screenshot("failed-" + strings.ReplaceAll(b.t.Name(), "/", "-"))
	b.t.Fatalf("%s is not true: %v\n%.3000s", expression, err, at)
}

// sees waits for an element.
func (b *tab) sees(selector string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.querySelector(%q)", selector))
}

// shows waits for a view of the page that has its data.
func (b *tab) shows(view string) {
	b.t.Helper()
	b.sees(fmt.Sprintf(`[data-view=%s][data-state=ready]`, view))
}

// clicks waits for an element that can be pressed, and clicks it.
func (b *tab) clicks(selector string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`(e => e && !e.disabled && (e.click(), true))(document.querySelector(%q))`, selector))
}

// presses clicks the button or link with a text.
func (b *tab) presses(text string) {
	b.t.Helper()
	b.until(fmt.Sprintf(
		`(e => e && !e.disabled && (e.click(), true))([...document.querySelectorAll("button, a, label, summary")].find(e => e.innerText?.trim().startsWith(%q) && e.checkVisibility()))`, text))
}

// fills sets the value of a field as typing does.
func (b *tab) fills(selector, value string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`(e => {
		if (!e) return false;
		Object.getOwnPropertyDescriptor(Object.getPrototypeOf(e), "value").set.call(e, %q);
		e.dispatchEvent(new Event("input", {bubbles: true}));
		e.dispatchEvent(new Event("change", {bubbles: true}));
		return true;
	})(document.querySelector(%q))`, value, selector))
}

// read returns the value of an expression that is a text.
func (b *tab) read(expression string) string {
	b.t.Helper()
	text, err := evaluate[string](b, expression)
	must(b.t, err)
	return text
}

// asksOnly checks after the test that the browser asked no other server, ran no foreign script, and that nothing failed
// in the page.
func (b *tab) asksOnly(addresses ...string) {
	b.t.Helper()
	var hosts []string
	for _, a := range addresses {
		u, err := url.Parse(a)
		if err != nil {
			b.t.Fatal(err)
		}
		hosts = append(hosts, u.Host)
	}
	b.t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.requests) < 5 {
			b.t.Errorf("only %d requests were recorded", len(b.requests))
		}
		for _, r := range b.requests {
			u, err := url.Parse(r)
			if err != nil || !slices.Contains([]string{"data", "blob", "about"}, u.Scheme) &&
				!slices.Contains(hosts, u.Host) {
				b.t.Errorf("the browser requested %s", r)
			}
		}
		if len(b.dialogs) > 0 {
			b.t.Errorf("dialogs: %q", b.dialogs)
		}
	})
}

// screenshot saves a picture of the tab in the folder EODISPATCH_SCREENSHOTS, if that is set.
func (b *tab) screenshot(name string) {
	b.t.Helper()
	folder := os.Getenv("EODISPATCH_SCREENSHOTS")
	if folder == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	must(b.t, err)
	must(b.t, os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o600))
}

// look is a way in which people see the page.
type look struct {
	name, scheme string
	width        int64
	rules        string // what axe-core checks
}

// The narrowest and the widest screen, in both schemes. The dark scheme differs in its colours only, and the narrow
// screen in its layout.
var looks = []look{
	{"narrow", "light", 360,
		`{runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"], rules: {"color-contrast": {enabled: false}}}`},
	{"narrow-dark", "dark", 360, `{runOnly: {type: "rule", values: ["color-contrast", "link-in-text-block"]}}`},
	{"dark", "dark", 2560, `{runOnly: {type: "rule", values: ["color-contrast", "link-in-text-block"]}}`},
	{"light", "light", 2560, `{runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}`},
}

// audit has axe-core judge the view in all looks, and checks that no view is wider than the screen.
func (b *tab) audit(view string) {
	b.t.Helper()
	axe, err := os.ReadFile("../../web/node_modules/axe-core/axe.min.js")
	if err != nil {
		b.t.Fatalf("axe-core is not installed: run make page: %v", err)
	}
	for _, l := range looks {
		b.looksLike(l)
		b.read(`typeof axe === "undefined" && (() => {` + string(axe) + `})(), ""`)
		said := b.read(`axe.run(document, ` + l.rules +
			`).then(r => JSON.stringify(r.violations.map(v => v.id + ": " + v.nodes.slice(0, 3).map(n => n.html + " " + n.failureSummary).join("; "))))`)
		var violations []string
		must(b.t, json.Unmarshal([]byte(said), &violations))
		for _, v := range violations {
			b.t.Errorf("%s, %s: %s", view, l.name, v)
		}
		if wide, err := evaluate[int64](b, "document.documentElement.scrollWidth"); err != nil || wide > l.width {
			b.t.Errorf("%s is %d pixels wide on a screen of %d: %v", view, wide, l.width, err)
		}
		b.screenshot(view + "-" + l.name)
	}
}

func (b *tab) looksLike(l look) {
	b.t.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: l.width, Height: 900,
		DeviceScaleFactor: 1})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: l.scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
}
