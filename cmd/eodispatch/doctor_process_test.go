package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/config"
)

// TestDoctor_AsksTheBrokerOnTheMachine: one that is not ready is a fault; where none runs, nothing is proven.
func TestDoctor_AsksTheBrokerOnTheMachine(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprintln(w, "not ready: the database does not respond")
	}))
	address := strings.TrimPrefix(server.URL, "http://")
	ask := func(listen string) (string, error) {
		return privateCheck(&config.Config{Telemetry: config.Telemetry{Listen: listen}}).ask(t.Context())
	}
	if unproven, err := ask(address); unproven != "" || err != nil {
		t.Errorf("ready: %q, %v", unproven, err)
	}
	status = http.StatusServiceUnavailable
	if _, err := ask(address); err == nil || err.Error() != "not ready: the database does not respond" {
		t.Errorf("not ready: %v", err)
	}
	server.Close()
	for _, listen := range []string{address, config.TelemetryOff} {
		if unproven, err := ask(listen); unproven == "" || err != nil {
			t.Errorf("%s: %q, %v", listen, unproven, err)
		}
	}
}

// TestDoctor_ChecksTheCertificate: one that ends soon is a fault, and so are files that cannot be read.
func TestDoctor_ChecksTheCertificate(t *testing.T) {
	folder := t.TempDir()
	files := config.TLS{CertFile: filepath.Join(folder, "cert.pem"), KeyFile: filepath.Join(folder, "key.pem")}
	ask := func(files config.TLS) error {
		_, err := certificateCheck(&config.Config{TLS: files}).ask(t.Context())
		return err
	}
	if err := ask(config.TLS{}); err != nil {
		t.Errorf("without a certificate: %v", err)
	}
	if err := ask(files); err == nil {
		t.Error("files that are not there are accepted")
	}
	writeCertificate(t, files.CertFile, files.KeyFile, 1) // ends within a week
	if err := ask(files); err == nil || !strings.Contains(err.Error(), "it ends at ") {
		t.Errorf("a certificate that ends soon: %v", err)
	}
}
