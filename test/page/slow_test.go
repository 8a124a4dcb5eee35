package page

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/identity"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// meets has requests of the page to paths of a pattern answered by a function of what would have been sent.
func (b *tab) meets(pattern, answer string) {
	b.t.Helper()
	b.read(`(() => {
		const real = (window.real ??= window.fetch);
		window.fetch = (url, how) => new RegExp("` + pattern + `").test(String(url)) && how?.method !== "OPTIONS"
			? (` + answer + `)(() => real(url, how), String(url), how) : real(url, how);
		return "";
	})()`)
}

// TestPage_SlowResponses has responses come late, in another order, or not at all, while the user goes on.
func TestPage_SlowResponses(t *testing.T) {
	t.Parallel()
	s := serve(t, simulator.Life{Stuck: true}, "EODISPATCH_VAULT_KEYS="+identity.NewKey(time.Now()).Reveal())
	b := s.enter(t, "#/services")
	b.shows("services")

	// a page of services that is asked for twice is added once
	b.meets("/services[?]", `(send, url) => real(url.replace(/&cursor=.*/, "")).then(r => r.json()).then(async list => {
		const second = url.includes("cursor=second");
		await new Promise(done => setTimeout(done, second ? 500 : 0));
		if (second) list.services = [{...list.services[0], id: "further", title: "Further"}];
		return new Response(JSON.stringify(second ? list : {...list, next: "second"}));
	})`)
	b.read(`(location.hash = "#/tasks", "")`)
	b.shows("tasks")
	b.read(`(location.hash = "#/services", "")`)
	b.shows("services")
	b.until(`(e => e && (e.click(), e.click(), true))([...document.querySelectorAll("button")].find(e => e.innerText === "Show more"))`)
	b.until(`[...document.querySelectorAll(".card h2")].some(h => h.innerText === "Further")`)
	b.read(`new Promise(done => setTimeout(() => done(""), 700))`)
	b.until(`[...document.querySelectorAll(".card h2")].filter(h => h.innerText === "Further").length === 1`)

	// a search that was left does not filter another view
	b.fills("input[type=search]", "ndvi")
	b.read(`(location.hash = "#/tasks", new Promise(done => setTimeout(() => done(""), 400)))`)
	b.until(`location.hash === "#/tasks"`)

	// tiles come once the broker can be reached again
	b.read(`(location.hash = "#/new/composite", "")`)
	b.shows("run")
	b.meets("/tiles$", `send => (window.asked = (window.asked ?? 0) + 1) > 1 ? send() : Promise.reject(new TypeError("cut"))`)
	b.fillsRegion()
	b.presses("Split into tiles")
	b.sees(`[data-tiles="14"]`)

	// what went wrong before is no more said of what was changed since
	b.presses("One job")
	b.clicks("button[type=submit]")
	b.shows("review")
	b.meets("/unit_jobs$", `() => Promise.reject(new TypeError("lost"))`)
	b.presses("Start the job")
	b.sees("[data-view=review] .notice.error")
	b.presses("Change something")
	b.shows("run")
	b.fills("[name=title]", "another")
	b.clicks("button[type=submit]")
	b.shows("review")
	b.until(`!document.querySelector("[data-view=review] .notice.error")`)

	// an address that is being typed stays while another is removed
	receiver := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(receiver.Close)
	b.read(`fetch("hooks", {method: "POST", headers: {"Content-Type": "application/json"}, body:
		JSON.stringify({url: "` + receiver.URL + `", events: ["finished"]})}).then(r => r.ok ? "" : r.text().then(text => Promise.reject(new Error(text))))`)
	b.read(`(location.hash = "#/account", "")`)
	b.sees("[data-hooks='1']")
	b.fills("input[name=url]", "https://receiver.example.org")
	b.presses("Remove")
	b.confirms()
	b.sees("[data-hooks='0']")
	b.until(`document.querySelector("input[name=url]").value === "https://receiver.example.org"`)

	// who goes back after the sign-out, or looks into another tab, sees nothing of the account
	other := b.another(s.address + "/#/account")
	other.shows("account")
	b.presses("Sign out")
	other.shows("sign-in")
	b.until(`!location.hash.includes("account") && document.querySelector("[data-view=sign-in]")`)
	b.read(`(setTimeout(() => history.back()), "")`)
	b.until(`location.hash.includes("account")`)
	b.shows("sign-in")
}

// TestPage_ReadsResultsWhileOthersCome has results take longer to read than it takes until the next tile finishes.
func TestPage_ReadsResultsWhileOthersCome(t *testing.T) {
	t.Parallel()
	s := serve(t, simulator.Life{Run: 4 * time.Second, Spread: 0.8})
	b := s.enter(t, "#/new/composite")
	b.shows("run")
	b.meets("/results/items", `send => new Promise(done => setTimeout(done, 5000)).then(send)`)
	b.startsTiles()
	b.clicks("#tab-results")
	b.until(`document.querySelector("[data-items]")?.dataset.items > 0`)
	if done := b.read(`document.querySelector("[data-done]").dataset.done`); done == "14" {
		t.Error("results came when all tiles had finished")
	}
	b.sees("[data-items='14']")
}
