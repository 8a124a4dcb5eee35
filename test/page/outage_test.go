package page

import (
	"fmt"
	"testing"

	"github.com/eodispatch/eodispatch/test/simulator"
)

const asAlice = `a[href*="as=alice"]:not([href*="deny"])` // of the provider's choices

// TestPage_GoesOn starts a task without a link to an account at the platform. Its attention leads to the page where the
// user links one, and back to the task, which goes on. Then the page is left open while the session ends: it says so by
// itself, and shows the same after the sign-in.
func TestPage_GoesOn(t *testing.T) {
	t.Parallel()
	s := serve(t, simulator.Life{})
	s.world.IdP.Unlink("alice")
	s.world.IdP.TellLogouts(s.address + "/session/back-channel-sign-out")
	b := s.enter(t, "#/new/composite")
	b.shows("run")
	b.startsTiles()
	b.until(`document.querySelector("a.resolve")?.innerText === "Sign in and link your account"`)
	task := b.read("location.hash")
	b.clicks("a.resolve")
	b.clicks(asAlice)
	b.until(`document.title === "Your account at simulated-openeo is linked"`)
	b.presses("Go back")
	b.sees("[data-done='14']")
	b.until(fmt.Sprintf(`location.hash === %q && !document.querySelector("a.resolve")`, task))

	b.clicks("#tab-tiles")
	b.presses("finished")
	b.clicks("table.tiles tbody button")
	b.until(`document.querySelectorAll("table.tiles tr[data-id]").length === 1`)
	shown := b.read("location.hash")
	s.world.IdP.Logout(simulator.BrokerRealm, "alice")
	b.sees(".ended")
	b.until(`document.querySelectorAll("table.tiles tr[data-id]").length === 1`) // what was shown stays
	b.signsIn()
	b.until(fmt.Sprintf(
		`location.hash === %q && document.querySelectorAll("table.tiles tr[data-id]").length === 1 && !document.querySelector(".ended")`, shown))
	b.sees(".live.on")

	b.presses("Platforms")
	b.sees(`[data-view=platforms] a[href$="/realms/apex/account"]`) // where links are removed
	b.presses("Link your account again")
	b.clicks(asAlice)
	b.presses("Go back")
	b.shows("platforms")
}

// TestPage_PlatformsThatAreDown opens a service whose platform cannot describe it, and starts a job that waits until
// its platform is back.
func TestPage_PlatformsThatAreDown(t *testing.T) {
	t.Parallel()
	s := serve(t, simulator.Life{})
	down := simulator.Fault{Status: 503}
	s.world.OpenEO.Faults.Set(down)
	s.world.OGC.Faults.Set(down)
	b := s.enter(t, "#/new/scene")
	b.until(`document.querySelector("main .notice.error")?.innerText.includes("The parameters cannot be read")`)
	s.world.OGC.Faults.Set()
	b.until(
		`document.querySelector("[data-view=run]") || (document.querySelector("main .notice.error button")?.click(), false)`)

	b.opens(s.address + "/#/new/composite")
	b.shows("run")
	b.fillsRegion()
	b.clicks("button[type=submit]")
	b.presses("Start the job")
	b.until(
		`document.querySelector("[data-view=job] .notice.warning")?.innerText.includes("as soon as it accepts jobs again")`)
	job := b.read("location.hash")
	b.opens(s.address + "/#/new/composite?step=review")
	b.until(
		`document.querySelector("[data-view=review] .notice.warning")?.innerText.includes("as soon as it accepts jobs again")`)
	s.world.OpenEO.Faults.Set()
	b.opens(s.address + "/" + job)
	b.sees("[data-view=job][data-status=finished]")
}
