//go:build unix

package main

import (
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestReload_ByHangup: the level of the log changes at once, other changes are named, and a file with faults changes nothing.
func TestReload_ByHangup(t *testing.T) {
	w := startWorld(t)
	file := configuration(t, w)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := startProgram(t, "EODISPATCH_CONFIG="+file)
	hangUp := func(text, said string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		shown := p.Log.Shows(said)
		p.Send(t, syscall.SIGHUP)
		select {
		case <-shown:
		case <-time.After(2 * time.Minute):
			t.Fatalf("%q is not in the log:\n%s", said, p.Log)
		}
	}
	hangUp(string(good)+"\nlog: {level: debug}\nfreshness: 3s\n", `"msg":"settings reloaded","log.level":"DEBUG","need a restart":["freshness"]`)
	hangUp(string(good)+"\nlog: {level: loud}\n", `"msg":"the settings were not reloaded: the running ones stay"`)
	hangUp(string(good)+"\nlog: {level: info}\n", `"log.level":"INFO","need a restart":[]`)
	if status, said := askPrivate(t, strings.TrimPrefix(p.Address, "http://"), "/health"); status != http.StatusOK {
		t.Errorf("%d %s", status, said)
	}
	if code := p.Stop(t); code != exitDone {
		t.Errorf("exit %d", code)
	}
}
