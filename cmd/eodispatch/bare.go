package main

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"sync"
	_ "time/tzdata" // for machines without time zones

	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/eodispatch/eodispatch/client/cli"
)

// trustOwnRoots makes connections trust the certificates that the program contains, if the machine has none, as in an
// image that holds nothing but the program. Parsing them takes milliseconds, so it is called before the first
// connection by TLS, and not when the process starts. Those of the machine are read by that connection.
var trustOwnRoots = sync.OnceFunc(func() { x509.SetFallbackRoots(ownRoots()) })

// trusting sends requests with these certificates.
type trusting struct{ http.RoundTripper }

// newTrusting returns a transport that differs from the default one in that it keeps as many connections to a server as
// it downloads files at once.
func newTrusting() trusting {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = cli.Parallel
	return trusting{t}
}

// RoundTrip implements [http.RoundTripper].
func (t trusting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "https" {
		trustOwnRoots()
	}
	return t.RoundTripper.RoundTrip(r)
}

func ownRoots() *x509.CertPool {
	pool := x509.NewCertPool()
	for root := range bundle.Roots() {
		certificate, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			panic(fmt.Sprintf("a certificate that was compiled in: %v", err))
		}
		if root.Constraint == nil {
			pool.AddCert(certificate)
		} else {
			pool.AddCertWithConstraint(certificate, root.Constraint)
		}
	}
	return pool
}
