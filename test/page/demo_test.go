package page

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"

	"github.com/eodispatch/eodispatch/test/executable"
)

var pageLine = regexp.MustCompile(`(?m)^  page +(\S+) `)

// demo starts `eodispatch demo --keep` and returns the address of its page.
func demo(t *testing.T) string {
	t.Helper()
	path, err := executable.Released()
	must(t, err)
	log := &executable.Log{}
	command := exec.Command(path, "demo", "--keep")
	command.Stdout, command.Stderr = log, log
	started := log.Shows("signed in as alice")
	must(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt) // fails if it has ended
		if err := command.Wait(); err != nil {
			t.Errorf("the demonstration ended with %v:\n%s", err, log)
		}
	})
	<-started
	found := pageLine.FindStringSubmatch(log.String())
	if found == nil {
		t.Fatalf("the demonstration prints no address of the page:\n%s", log)
	}
	return strings.TrimSuffix(found[1], "/")
}

// key presses a key.
func (b *tab) key(name string) {
	b.t.Helper()
	codes := map[string]int64{"Tab": 9, "Enter": 13, "ArrowRight": 39}
	text := map[string]string{"Enter": "\r"}[name]
	down := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: name, Code: name,
		WindowsVirtualKeyCode: codes[name], Text: text}
	call(b, input.DispatchKeyEvent, down)
	down.Type, down.Text = input.DispatchKeyEventTypeKeyUp, ""
	call(b, input.DispatchKeyEvent, down)
}

// reaches presses the button or link that a selector matches by keyboard alone.
func (b *tab) reaches(selector string) {
	b.t.Helper()
	b.sees(selector)
	for range 100 {
		if b.read(fmt.Sprintf(`String(document.activeElement === document.querySelector(%q))`, selector)) == "true" {
			b.key("Enter")
			return
		}
		b.key("Tab")
	}
	b.t.Fatalf("the Tab key does not reach %s", selector)
}

// TestPage_NewUser goes from the address that the demonstration prints to the first preview by keyboard alone, with
// six buttons, and then to a mosaic of the tiles that have finished. README shows its last picture.
func TestPage_NewUser(t *testing.T) {
	t.Parallel()
	needPage(t)
	b := openTab(t)
	b.opens(demo(t))
	b.reaches(`[data-view=sign-in] a.primary`)
	b.reaches(`a[href*="as=alice"]`)
	b.reaches(`.card a.primary[href$="ndvi_composite"]`)
	b.reaches("button.example")
	b.until(
		`document.querySelector("[name=west]").value === "5.05" && document.querySelector("[name=from]").value === "2024-06-01"`)
	b.reaches("button[type=submit]")
	b.reaches("[data-view=review] .actions .primary")
	b.sees("[data-view=job][data-status=finished]")
	b.sees(`.rasters[data-shown="1"]`)
	b.screenshot("first-preview")

	b.read(`(history.back(), "")`)
	b.shows("run")
	b.startsTiles()
	b.until(`document.querySelector(".rasters")?.dataset.shown >= 5 && !document.querySelector(".rasters [aria-live] p")`)
	b.looksLike(look{scheme: "light", width: 1440})
	b.clicks(".tools [aria-label='Show everything']")
	b.until(`new Promise(painted => requestAnimationFrame(() => requestAnimationFrame(() => painted(true))))`)
	b.screenshot("readme")

	b.clicks("[data-user]")
	b.shows("account")
	b.until(`[...document.querySelectorAll("td.num")].some((cell) => /^\d+ credits$/.test(cell.innerText))`)
}
