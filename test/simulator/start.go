package simulator

import (
	"encoding/json"
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

	OpenEOURL  string
	OGCURL     string
	IdPURL     string
	ControlURL string // see Control

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
	var listeners [4]net.Listener
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
	w.OpenEOURL, w.OGCURL, w.IdPURL, w.ControlURL = address(0), address(1), address(2), address(3)
	for i, h := range []http.Handler{w.OpenEO, w.OGC, w.IdP, w.Control()} {
		s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
		w.servers = append(w.servers, s)
		go s.Serve(listeners[i])
	}
	return w, nil
}

// create creates the servers, which refer to each other.
func create(o Options, idpURL string) *World {
	idp := &IdP{URL: idpURL, Faults: Faults{Seed: o.Seed}}
	issuer, platform := idp.Issuer(BrokerRealm), idp.Issuer(PlatformRealm)
	w := &World{
		IdP: idp,
		OpenEO: &OpenEO{Seed: o.Seed, Life: o.Life, Faults: Faults{Seed: o.Seed}, Open: o.Open, Issuer: platform,
			Check: idp.Check(PlatformRealm), Namespaces: &http.Client{Timeout: 10 * time.Second}},
		OGC: &OGC{Seed: o.Seed, Life: o.Life, Faults: Faults{Seed: o.Seed}},
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

// Setting is what Control changes at one server. Absent members stay.
type Setting struct {
	Faults *[]Fault `json:"faults,omitempty"` // in place of the active ones
	Life   *Life    `json:"life,omitempty"`   // not for the identity provider
}

// Control returns a handler for tests in another process: GET /_oracle returns {"openeo": Tally, "ogc": Tally, "idp":
// Tally}, and PUT /_faults accepts {"openeo": Setting, "ogc": Setting, "idp": Setting}.
func (w *World) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_oracle", func(rw http.ResponseWriter, _ *http.Request) {
		writeJSON(rw, 200, map[string]Tally{"openeo": w.OpenEO.Oracle.Tally(), "ogc": w.OGC.Oracle.Tally(),
			"idp": w.IdP.Oracle.Tally()})
	})
	mux.HandleFunc("PUT /_faults", func(rw http.ResponseWriter, r *http.Request) {
		var settings struct{ OpenEO, OGC, IdP Setting }
		decoder := json.NewDecoder(r.Body)
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&settings); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		settings.OpenEO.apply(&w.OpenEO.Faults, w.OpenEO.SetLife)
		settings.OGC.apply(&w.OGC.Faults, w.OGC.SetLife)
		settings.IdP.apply(&w.IdP.Faults, func(Life) {})
		rw.WriteHeader(http.StatusNoContent)
	})
	return mux
}

func (s Setting) apply(faults *Faults, live func(Life)) {
	if s.Faults != nil {
		faults.Set(*s.Faults...)
	}
	if s.Life != nil {
		live(*s.Life)
	}
}
