//go:build unix

package postgres

import (
	"os/exec"
	"runtime"
	"testing"
)

// run starts a command that ends with the test. The thread that starts it lives as long as it: Linux takes the end of
// that thread for the end of the parent.
func run(t testing.TB, command *exec.Cmd) {
	t.Helper()
	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(ended)
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait() // it is killed
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill() // fails if it has ended
		<-ended
	})
}
