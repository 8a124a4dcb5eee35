package program

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/eodispatch/eodispatch/client/cli"
	"github.com/eodispatch/eodispatch/test/executable"
	"github.com/eodispatch/eodispatch/test/installed"
	"github.com/eodispatch/eodispatch/test/simulator"
)

// ptyCommand is a command in a pseudo-terminal.
type ptyCommand struct {
	*exec.Cmd
	*executable.Log
	keyboard *os.File
	drained  chan struct{}
}

func (u *person) inTerminal(args ...string) *ptyCommand {
	u.Helper()
	program, err := executable.Released()
	if err != nil {
		u.Fatal(err)
	}
	return u.programInTerminal(program, args...)
}

func (u *person) programInTerminal(program string, args ...string) *ptyCommand {
	u.Helper()
	t := &ptyCommand{exec.CommandContext(u.Context(), program, args...), &executable.Log{Terminal: true}, nil,
		make(chan struct{})}
	t.Dir, t.Env = u.folder, append([]string{"TERM=xterm-256color"}, u.environ...)
	var err error
	if t.keyboard, err = pty.StartWithSize(t.Cmd, &pty.Winsize{Rows: 30, Cols: 120}); err != nil {
		u.Fatal(err)
	}
	u.Cleanup(func() { t.keyboard.Close() })
	go func() {
		defer close(t.drained)
		_, _ = io.Copy(t.Log, t.keyboard) // ends with EIO when the program has ended
	}()
	return t
}

func (t *ptyCommand) types(test *testing.T, keys string) {
	test.Helper()
	if _, err := t.keyboard.WriteString(keys); err != nil {
		test.Fatal(err)
	}
}

// ends waits for the end and returns the exit code.
func (t *ptyCommand) ends(test *testing.T) int {
	test.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = t.Wait() // ProcessState holds the result
	}()
	select {
	case <-ended:
	case <-time.After(3 * time.Minute):
		test.Fatalf("it does not end:\n%s", t.Log)
	}
	<-t.drained
	return t.ProcessState.ExitCode()
}

var (
	controls = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-ln-z]")
	colors   = regexp.MustCompile("\x1b\\[[0-9;]*m")
)

// plainText returns what a terminal was sent, without its movements of the cursor.
func (t *ptyCommand) plainText() string {
	return strings.ReplaceAll(controls.ReplaceAllString(t.Log.String(), ""), "\r", "")
}

// TestUsers_SeeABarInATerminal follows a task with a bar, in a terminal that is resized, leaves it by Ctrl-C, and comes
// back.
func TestUsers_SeeABarInATerminal(t *testing.T) {
	t.Parallel()
	s := startDemo(t)
	token := SignIn(t, s.world, s.broker).Token
	u := newPerson(t, "EODISPATCH_BROKER="+s.broker, "EODISPATCH_TOKEN="+token, "NO_COLOR=1")
	s.world.OGC.SetLife(simulator.Life{Run: time.Hour})
	first := u.inTerminal("run", "ndvi", "--platform", "simulated-ogc", "--area", "5.05,51.05,5.75,51.45", "--grid",
		"20x20km", "--wait")
	first.Await(t, "running")
	if err := pty.Setsize(first.keyboard, &pty.Winsize{Rows: 30, Cols: 60}); err != nil {
		t.Fatal(err)
	}
	first.types(t, "\x03")
	if code := first.ends(t); code != cli.ExitInterrupted {
		t.Errorf("exit %d", code)
	}
	u.holds(first.plainText(), "task-1\n", "task-1  [", "task-1 continues. Go on with: eodispatch watch task-1")
	if colors.MatchString(first.Log.String()) {
		t.Errorf("it has colors although NO_COLOR is set: %q", first.Log)
	}

	second := u.inTerminal("watch", "task-1")
	second.Await(t, "running")
	u.must("cancel", "task-1")
	if code := second.ends(t); code != cli.ExitCanceled {
		t.Errorf("exit %d", code)
	}
	lines := strings.Split(strings.TrimSpace(second.plainText()), "\n")
	if last := lines[len(lines)-1]; last != "eodispatch: task-1 was canceled" {
		t.Errorf("the last line is %q", last)
	}
	u.refused(cli.ExitCanceled, "task-1 was canceled", "wait", "task-1")

	one := u.inTerminal("delete", "job-1")
	one.Await(t, "Delete job-1?")
	one.types(t, "n\r")
	one.ends(t)
	u.holds(u.must("show", "job-1"), "canceled")
	for _, answer := range []struct {
		keys    string
		code    int
		deleted bool
	}{{"n\r", exitDone, false}, {"\r", exitDone, false}, {"\x03", cli.ExitInterrupted, false},
		{"Y\r", exitDone, true}} {
		asked := u.inTerminal("delete", "task-1")
		asked.Await(t, "Delete task-1 with all its jobs?")
		asked.types(t, answer.keys)
		code := asked.ends(t)
		deleted := strings.Contains(asked.plainText(), "task-1 is deleted")
		if code != answer.code || deleted != answer.deleted {
			t.Errorf("answered %q: exit %d, deleted %t", answer.keys, code, deleted)
		}
	}
	u.refused(exitFailed, "no such", "show", "task-1")
}

// TestUsers_WaitWithALimit distinguishes a job that runs from one that failed.
func TestUsers_WaitWithALimit(t *testing.T) {
	t.Parallel()
	s := startDemo(t)
	token := SignIn(t, s.world, s.broker).Token
	environ := []string{"HOME=" + t.TempDir(), "EODISPATCH_BROKER=" + s.broker, "EODISPATCH_TOKEN=" + token}
	s.world.OGC.SetLife(simulator.Life{Run: time.Hour})
	ask := func(code int, want string, args ...string) {
		t.Helper()
		if got, printed := try(t, environ, args...); got != code || !strings.Contains(printed, want) {
			t.Errorf("%v: exit %d, not %d, with %q in:\n%s", args, got, code, want, printed)
		}
	}
	ask(exitDone, "job-1", "run", "ndvi", "--platform", "simulated-ogc", "--area", usersBox)
	ask(cli.ExitRunning, "job-1 has not ended within 10ms", "wait", "job-1", "--timeout", "10ms")
	ask(cli.ExitRunning, "no results yet", "results", "job-1")
	ask(exitDone, "job-1 is", "cancel", "1")
	ask(cli.ExitCanceled, "job-1 was canceled", "wait", "1")
	ask(exitDone, "is deleted", "delete", "job-1")
	ask(exitFailed, "no such job", "watch", "job-1")
	s.world.OGC.SetLife(simulator.Life{})
	ask(cli.ExitUnsuccessful, "failed: ", "run", "fail", "--platform", "simulated-ogc", "--area", usersBox, "--wait")
}

// TestCompletion_InBash completes commands, platforms and ids with the generated script.
func TestCompletion_InBash(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Fatal(err)
	}
	s := startDemo(t)
	token := SignIn(t, s.world, s.broker).Token
	u := newPerson(t, "EODISPATCH_BROKER="+s.broker, "EODISPATCH_TOKEN="+token)
	u.must("run", "ndvi", "--platform", "simulated-ogc", "--area", usersBox, "--title", "summer")
	// The function is that of the package bash-completion for words without special characters.
	const script = `_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${words[cword]}; prev=${words[cword-1]}; }
source <(eodispatch completion bash)
try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9; COMPREPLY=(); __start_eodispatch; echo "$* -> ${COMPREPLY[*]}"; }
try eodispatch downl
try eodispatch link simulated-og
try eodispatch show job
try eodispatch tiles 1,1,2,2 --grid 20
`
	command := exec.CommandContext(t.Context(), "bash", "-c", script)
	command.Env, command.Dir = u.environ, u.folder
	printed, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	for _, want := range []string{"downl -> download", "simulated-og -> simulated-ogc", "show job -> job-1",
		"--grid 20 -> 20x20km"} {
		if !strings.Contains(string(printed), want) {
			t.Errorf("%q is not in:\n%s", want, printed)
		}
	}
	u.holds(u.must("__complete", "show", ""), "job-1\tsummer", fmt.Sprintf(":%d", 4))
}

// TestCompletion_InZsh types into an interactive zsh.
func TestCompletion_InZsh(t *testing.T) {
	t.Parallel()
	installed.Program(t, "zsh")
	s := startDemo(t)
	token := SignIn(t, s.world, s.broker).Token
	u := newPerson(t, "EODISPATCH_BROKER="+s.broker, "EODISPATCH_TOKEN="+token)
	u.must("run", "ndvi", "--platform", "simulated-ogc", "--area", usersBox, "--title", "summer")
	shell := u.programInTerminal("zsh", "-f")
	shell.types(t, "autoload -U compinit; compinit -D; source <(eodispatch completion zsh); print lo''aded\r")
	shell.Await(t, "\nloaded")
	for _, c := range []struct{ typed, completed string }{
		{"eodispatch downl", "eodispatch download"},
		{"eodispatch link simulated-og", "eodispatch link simulated-ogc"},
		{"eodispatch show job", "eodispatch show job-1"},
	} {
		shell.types(t, c.typed+"\t")
		shell.Await(t, c.completed)
		shell.types(t, "\x15") // deletes the line
	}
	shell.types(t, "exit\r")
	shell.ends(t)
}
