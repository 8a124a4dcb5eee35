package page

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
)

// addsHook has a server notified of jobs, on the view of the account: the secret is shown once, a test arrives, another
// does not, it is sent again, and the hook is removed.
func (b *tab) addsHook() {
	b.t.Helper()
	var status atomic.Int32
	status.Store(http.StatusNoContent)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(status.Load()))
	}))
	b.t.Cleanup(receiver.Close)
	b.sees("[data-hooks='0']")
	b.until(`!document.querySelector("[data-hooks]").innerText.includes("mail")`) // this service sends none
	b.fills("input[name=url]", "ftp://receiver.example.org")
	b.clicks("[data-hooks] button[type=submit]")
	b.until(`document.querySelector("[data-hooks] .fault")?.innerText.includes("cannot be used")`)
	b.fills("input[name=url]", receiver.URL)
	b.clicks("[data-hooks] button[type=submit]")
	b.sees("[data-hooks='1'] [data-hook][data-state=active]")
	b.until(`document.querySelector("code.secret")?.innerText.startsWith("whsec_")`)
	b.audit("hooks")
	b.until(`!document.querySelector("[data-hooks] input[name=url]")`) // a further hook would take the secret's place
	b.presses("I have stored it")
	b.until(`!document.querySelector("code.secret")`)
	b.presses("Send a test")
	b.until(`document.querySelector("[data-delivery=delivered]")?.innerText.includes("204")`)
	status.Store(http.StatusTeapot)
	b.presses("Send a test")
	b.until(`document.querySelector("[data-delivery=waiting]")?.innerText.includes("418")`)
	b.audit("hook-log")
	status.Store(http.StatusNoContent)
	b.clicks("[data-delivery=delivered] button")
	b.until(`document.querySelectorAll("[data-delivery]").length === 2`)
	b.presses("Remove")
	b.confirms()
	b.sees("[data-hooks='0']")
}
