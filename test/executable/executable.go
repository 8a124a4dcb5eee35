// Package executable builds the real program once for each test package, and starts it.
package executable

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Time limits of a program, for busy machines.
const (
	serveWithin = 5 * time.Minute
	stopWithin  = 2 * time.Minute
)

// Binary returns the path of a program, which it builds at the first call.
type Binary func() (path string, err error)

var (
	// Released is the program as `make build` builds it.
	Released = build("eodispatch")
	// Mortal is a program that kills itself at the point named by EODISPATCH_DIE, and in which a minute lasts a second.
	Mortal = build("mortal", "-tags", "failpoints")
)

// build returns the program of this module. name is its file name.
func build(name string, flags ...string) Binary {
	return sync.OnceValues(func() (string, error) {
		folder, err := folderOfPrograms()
		if err != nil {
			return "", err
		}
		path, main := filepath.Join(folder, name), "github.com/eodispatch/eodispatch/cmd/eodispatch"
		compile := exec.Command("go", append(append([]string{"build", "-trimpath", "-o", path}, flags...), main)...)
		compile.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := compile.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w\n%s", err, out)
		}
		return path, nil
	})
}

var made struct {
	sync.Mutex
	folder string
}

// folderOfPrograms creates the folder of the built programs at the first call. CleanUp removes it.
func folderOfPrograms() (string, error) {
	made.Lock()
	defer made.Unlock()
	if made.folder != "" {
		return made.folder, nil
	}
	folder, err := os.MkdirTemp("", "eodispatch-test-")
	made.folder = folder
	return folder, err
}

// CleanUp removes the built programs. Call it at the end of TestMain.
func CleanUp() {
	made.Lock()
	defer made.Unlock()
	if made.folder != "" {
		_ = os.RemoveAll(made.folder) // at worst a temporary folder stays
	}
}

// Program is a running broker, or one that has ended.
type Program struct {
	*exec.Cmd
	Log     *Log          // standard output and standard error
	Address string        // base URL of its interface; "" if it ended before it served
	Ended   chan struct{} // closed when the process has ended; then ProcessState is set
}

// Launch starts a command with only the given environment, in an empty folder, and returns at once. Without
// EODISPATCH_LISTEN a broker listens on a free port of the loopback interface, and without EODISPATCH_TELEMETRY_LISTEN
// it has no private listener. The process is killed after the test.
func Launch(t testing.TB, binary Binary, environ []string, args ...string) *Program {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	p := &Program{Cmd: exec.Command(path, args...), Log: &Log{}, Ended: make(chan struct{})}
	p.Dir, p.Stdout, p.Stderr = t.TempDir(), p.Log, p.Log
	p.Env = append([]string{"EODISPATCH_LISTEN=127.0.0.1:0", "EODISPATCH_TELEMETRY_LISTEN=off"}, environ...)
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.Wait() // ProcessState holds the result
		close(p.Ended)
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill() // fails if it has ended
		<-p.Ended
		if t.Failed() {
			text := p.Log.String()
			t.Logf("the end of the program's log:\n%s", text[max(0, len(text)-20_000):])
		}
	})
	return p
}

// Start starts the command serve with only the given environment, in an empty folder, and returns when the program
// serves or has ended. See Launch.
func Start(t testing.TB, binary Binary, environ ...string) *Program {
	t.Helper()
	p := Launch(t, binary, environ, "serve")
	serving := p.Log.Shows(`"msg":"serving"`)
	select {
	case <-serving:
		_, after, _ := strings.Cut(p.Log.String(), `"msg":"serving","address":"`)
		host, _, _ := strings.Cut(after, `"`)
		p.Address = "http://" + host
	case <-p.Ended:
	case <-time.After(serveWithin):
		t.Fatalf("it does not serve after %v:\n%s", serveWithin, p.Log)
	}
	return p
}

// Stop stops the program by SIGTERM, waits until it has ended, and returns its exit code.
func (p *Program) Stop(t testing.TB) int {
	t.Helper()
	p.Send(t, syscall.SIGTERM)
	p.AwaitEnd(t, stopWithin)
	return p.ProcessState.ExitCode()
}

// Send sends a signal to the program.
func (p *Program) Send(t testing.TB, s os.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// AwaitEnd fails the test if the program does not end in time.
func (p *Program) AwaitEnd(t testing.TB, within time.Duration) {
	t.Helper()
	if !p.EndsWithin(within) {
		t.Fatalf("it did not end within %v", within)
	}
}

// EndsWithin waits until the program has ended, for a time, and reports whether it has.
func (p *Program) EndsWithin(within time.Duration) bool {
	select {
	case <-p.Ended:
		return true
	case <-time.After(within):
		return false
	}
}

// given are the addresses that FreeAddress has returned.
var given sync.Map

// FreeAddress returns a loopback address on which nobody listens, for a program that must be found at the same one
// again. It returns none twice, for tests beside each other. Its port is below those that systems assign by themselves
// (from 32768 on Linux), so that no connection takes it before the program listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 15_000+rand.IntN(17_000))
		if _, twice := given.LoadOrStore(address, true); twice {
			continue
		}
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

// Log holds the output of a program. The zero value is ready to use.
type Log struct {
	// Terminal has texts found before their line is complete, as a person sees them.
	Terminal bool

	mu     sync.Mutex
	text   bytes.Buffer
	wanted map[string]chan struct{}
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	for text, seen := range l.wanted {
		if l.has(text) {
			close(seen)
			delete(l.wanted, text)
		}
	}
	return len(p), nil
}

// String returns the output so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// has reports whether the text is in a line that is complete.
func (l *Log) has(text string) bool {
	lines := l.text.Bytes()
	if l.Terminal {
		return bytes.Contains(lines, []byte(text))
	}
	return bytes.Contains(lines[:bytes.LastIndexByte(lines, '\n')+1], []byte(text))
}

// Shows returns a channel that is closed when the text appears in the output. Without Terminal, its line is complete
// then.
func (l *Log) Shows(text string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seen := l.wanted[text]; seen != nil {
		return seen
	}
	seen := make(chan struct{})
	if l.has(text) {
		close(seen)
		return seen
	}
	if l.wanted == nil {
		l.wanted = map[string]chan struct{}{}
	}
	l.wanted[text] = seen
	return seen
}

// Await fails the test if a text does not appear in time.
func (l *Log) Await(t testing.TB, text string) {
	t.Helper()
	select {
	case <-l.Shows(text):
	case <-time.After(serveWithin):
		t.Fatalf("%q does not appear in:\n%s", text, l)
	}
}
