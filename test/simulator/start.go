package simulator

import (
	"errors"
	"net"
	"net/http"
	"time"
)

// Options configures the servers that [Start] starts. The zero Options are useful.
type Options struct {
	Seed uint64
	Life Life
	// Open makes both platforms accept requests without a token.
	Open bool
}

// World is an openEO back-end, an OGC server and an identity provider that listen on the loopback interface. Both
// platforms accept the tokens of the platform's realm.
type World struct {
	OpenEO *OpenEO
	OGC    *OGC
	IdP    *IdP

	OpenEOURL string
	OGCURL    string
	IdPURL    string

	Credentials Credentials

	servers []*http.Server
}

// Credentials holds names and secrets known to the identity provider. The issuers are IdP.Issuer of the two realms.
type Credentials struct {
	User, Password   string // a user of the broker's realm, linked to an account at the platform
	Client           string // a public client of the broker's realm that may use the password grant
	BrokerID         string // the broker's own client in its realm, which may exchange tokens
	BrokerSecret     string
	ServiceID        string // a client of the platform's realm with a service account
	ServiceSecret    string
	Issuer, Platform string // issuers of the two realms
}

// Start listens on free loopback ports. The caller closes the world.
func Start(o Options) (*World, error) {
	var listeners [3]net.Listener
	for i := range listeners {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			for _, open := range listeners[:i] {
				open.Close()
			}
			return nil, err
		}
		listeners[i] = l
	}
	address := func(i int) string { return "http://" + listeners[i].Addr().String() }
	w := create(o, address(2))
	w.OpenEOURL, w.OGCURL, w.IdPURL = address(0), address(1), address(2)
	for i, h := range []http.Handler{w.OpenEO, w.OGC, w.IdP} {
		s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
		w.servers = append(w.servers, s)
		go s.Serve(listeners[i])
	}
	return w, nil
}

// create creates the servers, which refer to each other.
func create(o Options, idpURL string) *World {
	idp := &IdP{URL: idpURL}
	issuer, platform := idp.Issuer(BrokerRealm), idp.Issuer(PlatformRealm)
	w := &World{
		IdP: idp,
		OpenEO: &OpenEO{Seed: o.Seed, Life: o.Life, Open: o.Open, Issuer: platform, Check: idp.Check(PlatformRealm),
			Namespaces: &http.Client{Timeout: 10 * time.Second}},
		OGC: &OGC{Seed: o.Seed, Life: o.Life},
		Credentials: Credentials{User: "alice", Password: "alice-password", Client: "portal",
			BrokerID: "eodispatch-api", BrokerSecret: "eodispatch-api-secret",
			ServiceID: "eodispatch-service", ServiceSecret: "eodispatch-service-secret", Issuer: issuer,
			Platform: platform},
	}
	if !o.Open {
		w.OGC.Check = idp.Check(PlatformRealm)
	}
	return w
}

// Close closes all connections at once.
func (w *World) Close() error {
	var errs []error
	for _, s := range w.servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
