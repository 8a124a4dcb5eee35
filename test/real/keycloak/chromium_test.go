package keycloak

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

// chromium is a tab of a real browser without a screen, driven over the DevTools protocol. It reaches nobody but this machine.
type chromium struct {
	t       *testing.T
	socket  *websocket.Conn
	session string
	last    int // call
}

// openChromium starts a browser of its own, without cookies, for a test. Where none is installed the test is skipped; in CI it
// fails.
func openChromium(t *testing.T) *chromium {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("chromium is not installed: run test/real/install.sh")
		}
		t.Skip("chromium is not installed: run test/real/install.sh")
	}
	folder := t.TempDir()
	browser := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--window-size=800,600",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-port=0", "--user-data-dir="+folder, "about:blank")
	browser.Env = append(os.Environ(), "HOME="+folder)
	browser.SysProcAttr = dyingWithUs()
	said, err := browser.StderrPipe()
	must(t, err)
	must(t, browser.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-browser.Process.Pid, syscall.SIGKILL) // an error: it has ended already
		_ = browser.Wait()
	})
	c := &chromium{t: t}
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if address, ok := strings.CutPrefix(lines.Text(), "DevTools listening on "); ok {
			go func() { // what else it says is of no interest, and must be taken from it
				for lines.Scan() {
				}
			}()
			c.attach(address)
			return c
		}
	}
	t.Fatal("chromium does not start")
	return nil
}

// attach makes a tab.
func (c *chromium) attach(address string) {
	c.t.Helper()
	var err error
	c.socket, _, err = websocket.Dial(c.t.Context(), address, nil)
	must(c.t, err)
	c.socket.SetReadLimit(64 << 20)
	var tab struct{ TargetID, SessionID string }
	c.call("Target.createTarget", Object{"url": "about:blank"}, &tab)
	c.call("Target.attachToTarget", Object{"targetId": tab.TargetID, "flatten": true}, &tab)
	c.session = tab.SessionID
}

// call has the browser do something, and reads what came of it into into.
func (c *chromium) call(method string, parameters Object, into any) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), ready)
	defer cancel()
	c.last++
	message := Object{"id": c.last, "method": method, "params": parameters}
	if c.session != "" {
		message["sessionId"] = c.session
	}
	must(c.t, wsjson.Write(ctx, c.socket, message))
	for {
		var answer struct {
			ID     int
			Result json.RawMessage
			Error  struct{ Message string }
		}
		must(c.t, wsjson.Read(ctx, c.socket, &answer))
		switch {
		case answer.ID != c.last: // an event
			continue
		case answer.Error.Message != "":
			c.t.Fatalf("%s: %s", method, answer.Error.Message)
		case into != nil:
			must(c.t, json.Unmarshal(answer.Result, into))
		}
		return
	}
}

// run evaluates an expression in the page as if its user had caused it, and gives its value, that of a promise once it is kept. An error is the page's.
func (c *chromium) run(expression string) (value any, err error) {
	c.t.Helper()
	var said struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Text string }
	}
	c.call("Runtime.evaluate", Object{"expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true}, &said)
	if said.ExceptionDetails != nil {
		return nil, fmt.Errorf("%s: %s", expression, said.ExceptionDetails.Text)
	}
	return said.Result.Value, nil
}

// comesTo waits until an expression is true of the page.
func (c *chromium) comesTo(expression string) {
	c.t.Helper()
	eventually(c.t, 3*time.Minute, func() error {
		is, err := c.run(expression) // an error: the page is just being left
		if is == true {
			return nil
		}
		at, _ := c.run(`location.href + " " + document.body?.innerText`)
		return fmt.Errorf("%s: not so at %.800s %v", expression, at, err)
	})
}

// open goes to an address.
func (c *chromium) open(address string) {
	c.t.Helper()
	c.call("Page.navigate", Object{"url": address}, nil)
}

// presses waits for a button or link, and presses it.
func (c *chromium) presses(selector string) {
	c.t.Helper()
	find := fmt.Sprintf("document.querySelector(%q)", selector)
	c.comesTo(find + ` !== null && document.readyState === "complete"`)
	_, err := c.run(find + ".click()")
	must(c.t, err)
}

// signsIn fills in Keycloak's sign-in of a realm.
func (c *chromium) signsIn(realm, user string) {
	c.t.Helper()
	c.comesTo(fmt.Sprintf(`location.pathname.startsWith("/realms/%s/") && document.querySelector("#password") !== null`, realm))
	_, err := c.run(fmt.Sprintf(`document.querySelector("#username").value = %q, document.querySelector("#password").value = "%[1]s-password"`, user))
	must(c.t, err)
	c.presses("[type=submit]")
}
