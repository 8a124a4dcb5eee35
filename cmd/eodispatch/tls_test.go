package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/config"
)

// TestServe_TLS: the program serves TLS with the certificate in its files, loads a new one, and keeps the current one
// if the new one cannot be used.
func TestServe_TLS(t *testing.T) {
	folder := t.TempDir()
	cert, key := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	writeCertificate(t, cert, key, 1)
	settings := settingsOf(t, "listen: 127.0.0.1:0\ndatabase: sqlite:"+filepath.Join(folder, "eo.db")+"\ntls: {cert: "+
		cert+", key: "+key+"}\n"+
		"identity: {issuer: https://a.example.org, client_id: a}\nplatforms:\n- {name: p, protocol: openeo, endpoint: "+
		"https://b.example.org, access: open}")
	address := served(t, settings)
	if got := serial(t, address); got != 1 {
		t.Fatalf("certificate %d, want 1", got)
	}
	writeCertificate(t, cert, key, 2)
	if got := serial(t, address); got != 2 {
		t.Errorf("after a renewal: certificate %d, want 2", got)
	}
	if err := os.WriteFile(cert, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := serial(t, address); got != 2 {
		t.Errorf("with a broken file: certificate %d, want 2", got)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Get("https://" + address + "/health")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("health: %s", response.Status)
	}
}

// TestServe_RefusesTLSWithoutItsFiles before it accepts a request.
func TestServe_RefusesTLSWithoutItsFiles(t *testing.T) {
	if _, err := newCertificate(config.TLS{CertFile: filepath.Join(t.TempDir(), "none"), KeyFile: "none"},
		slog.New(slog.DiscardHandler)); err == nil {
		t.Error("no error")
	}
}

// served runs the broker until the test ends, and returns its address.
func served(t *testing.T, settings *config.Config) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ready, stopped := make(chan string, 1), make(chan error, 1)
	go func() {
		stopped <- serveOn(ctx, net.Listen, settings, nil, &slog.LevelVar{}, slog.New(slog.DiscardHandler),
			func(address string) { ready <- address })
	}()
	t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	select {
	case address := <-ready:
		return address
	case err := <-stopped:
		stopped <- err
		t.Fatal(err)
		return ""
	}
}

// serial returns the serial number of the certificate that a new connection gets.
func serial(t *testing.T, address string) int64 {
	t.Helper()
	connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func writeCertificate(t *testing.T, cert, key string, number int64) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(number), Subject: pkix.Name{CommonName: "localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY",
		Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
