package main

import (
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOwnRoots_AreForMachinesWithoutCertificates runs itself in a process for which the machine has no certificates,
// and in one for which it has a single one.
func TestOwnRoots_AreForMachinesWithoutCertificates(t *testing.T) {
	const inProcess = "EODISPATCH_TEST_ROOTS"
	if os.Getenv(inProcess) != "" {
		trustOwnRoots()
		trustOwnRoots() // as when two commands run in one process
		roots, err := x509.SystemCertPool()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("trusts its own:", roots.Equal(ownRoots()))
		return
	}
	one := filepath.Join(t.TempDir(), "one.pem")
	writeCertificate(t, one, filepath.Join(t.TempDir(), "key.pem"), 1)
	for file, want := range map[string]string{"/nowhere": "trusts its own: true\n", one: "trusts its own: false\n"} {
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		again.Env = append(os.Environ(), inProcess+"=1", "SSL_CERT_FILE="+file, "SSL_CERT_DIR="+t.TempDir())
		if said, err := again.Output(); err != nil || !strings.HasPrefix(string(said), want) {
			t.Errorf("%s: %v\n%s", file, err, said)
		}
	}
}
