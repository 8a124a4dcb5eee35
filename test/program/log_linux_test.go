package program

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eodispatch/eodispatch/test/executable"
)

// terminal opens a pseudo-terminal: what is written to screen can be read from keyboard, as by a person in front of it.
func terminal(t *testing.T) (keyboard, screen *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keyboard.Close() })
	fd := int(keyboard.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { screen.Close() })
	return keyboard, screen
}

// On a terminal the log is text unless log.format says json.
func TestServe_LogsAsTextOnATerminal(t *testing.T) {
	t.Parallel()
	path, err := executable.Released()
	if err != nil {
		t.Fatal(err)
	}
	file := configuration(t, startWorld(t))
	for format, want := range map[string]string{"": "level=INFO msg=serving ", "json": `"msg":"serving"`} {
		keyboard, tty := terminal(t)
		var seen executable.Log
		p := exec.Command(path, "serve", "--config", file)
		p.Env, p.Stdout, p.Stderr = []string{"EODISPATCH_LISTEN=127.0.0.1:0", "EODISPATCH_LOG_FORMAT=" + format}, tty,
			tty
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { // ends when the terminal is closed
			buffer := make([]byte, 4096)
			for {
				n, err := keyboard.Read(buffer)
				seen.Write(buffer[:n])
				if err != nil {
					return
				}
			}
		}()
		select {
		case <-seen.Shows(want):
		case <-time.After(3 * time.Minute):
			t.Errorf("format %q: %s is not in:\n%s", format, want, strings.TrimSpace(seen.String()))
		}
		if err := p.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = p.Wait() // its output is what is tested
	}
}
