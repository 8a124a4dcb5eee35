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
	"github.com/eodispatch/eodispatch/test/installed"
)

// chromium is a tab of a real headless browser, controlled over the DevTools protocol. Host rules limit its connections
// to 127.0.0.1.
type chromium struct {
	t       *testing.T
	socket  *websocket.Conn
	session string // of the tab; "" for calls of the browser itself
	last    int    // ID of the last call
}

// openChromium starts a browser with an empty profile, and opens a tab. If chromium is not installed, it skips the
// test, or fails it in CI. The browser is killed after the test.
func openChromium(t *testing.T) *chromium {
	t.Helper()
	path := installed.Program(t, "chromium")
	folder := t.TempDir()
	browser := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
		"--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--window-size=800,600",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-port=0",
		"--user-data-dir="+folder, "about:blank")
	browser.Env = append(os.Environ(), "HOME="+folder)
	browser.SysProcAttr = dyingWithUs()
	said, err := browser.StderrPipe()
	must(t, err)
	must(t, browser.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-browser.Process.Pid, syscall.SIGKILL) // fails only if the process has ended
		_ = browser.Wait()
	})
	c := &chromium{t: t}
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if address, ok := strings.CutPrefix(lines.Text(), "DevTools listening on "); ok {
			go func() { // discard the rest, so that writes to the pipe do not block the browser
				for lines.Scan() {
				}
			}()
			c.attach(address)
			return c
		}
	}
	t.Fatal("chromium ended before it listened for DevTools")
	return nil
}

// attach connects to a browser's DevTools address, opens a tab and attaches to it.
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

// call calls a DevTools method and decodes its result into into, unless that is nil. An error ends the test.
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

// run evaluates an expression in the page as a user's gesture, awaits it if it is a promise, and returns its value. The
// error is an exception in the page.
func (c *chromium) run(expression string) (value any, err error) {
	c.t.Helper()
	var said struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Text string }
	}
	c.call("Runtime.evaluate", Object{"expression": expression, "returnByValue": true, "awaitPromise": true,
		"userGesture": true}, &said)
	if said.ExceptionDetails != nil {
		return nil, fmt.Errorf("%s: %s", expression, said.ExceptionDetails.Text)
	}
	return said.Result.Value, nil
}

// waitFor waits up to 3 minutes until an expression is true in the page.
func (c *chromium) waitFor(expression string) {
	c.t.Helper()
	eventually(c.t, 3*time.Minute, func() error {
		is, err := c.run(expression) // an error: the browser is leaving the page; retry
		if is == true {
			return nil
		}
		at, _ := c.run(`location.href + " " + document.body?.innerText`)
		return fmt.Errorf("%s is not true at %.800s: %v", expression, at, err)
	})
}

// open navigates to an address.
func (c *chromium) open(address string) {
	c.t.Helper()
	c.call("Page.navigate", Object{"url": address}, nil)
}

// presses waits until the page is loaded and contains the element that a selector matches, and clicks the element.
func (c *chromium) presses(selector string) {
	c.t.Helper()
	find := fmt.Sprintf("document.querySelector(%q)", selector)
	c.waitFor(find + ` !== null && document.readyState === "complete"`)
	_, err := c.run(find + ".click()")
	must(c.t, err)
}

// signsIn waits for the sign-in form of a realm, and submits it with the credentials of a user.
func (c *chromium) signsIn(realm, user string) {
	c.t.Helper()
	c.waitFor(fmt.Sprintf(`location.pathname.startsWith("/realms/%s/") && document.querySelector("#password") !== null`,
		realm))
	_, err := c.run(fmt.Sprintf(
		`document.querySelector("#username").value = %q, document.querySelector("#password").value = "%[1]s-password"`,
		user))
	must(c.t, err)
	c.presses("[type=submit]")
}
