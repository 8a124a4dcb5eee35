package upstream

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"code.dny.dev/ssrf"

	"github.com/eodispatch/eodispatch/dispatch"
)

// resolver answers every name with the addresses, one after the other, like a rebound name.
func resolver(t *testing.T, addresses ...string) *net.Resolver {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	go func() {
		buf := make([]byte, 512)
		for i := 0; ; {
			n, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			ip := netip.MustParseAddr(addresses[i%len(addresses)])
			reply, matched := answerDNS(buf[:n], ip)
			if matched {
				i++
			}
			_, _ = server.WriteTo(reply, from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

// answerDNS answers a query with ip if it has the requested type, else with nothing.
func answerDNS(query []byte, ip netip.Addr) (reply []byte, matched bool) {
	end := 12
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5
	kind := query[end-3]
	want := byte(1) // A
	if ip.Is6() {
		want = 28 // AAAA
	}
	reply = append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, query[12:end]...)
	if kind != want {
		return reply, false
	}
	reply[7] = 1
	data := ip.AsSlice()
	reply = append(reply, 0xc0, 12, 0, want, 0, 1, 0, 0, 0, 0, 0, byte(len(data)))
	return append(reply, data...), true
}

// The address is checked at each connection, whatever an earlier lookup returned.
func TestGuard_NamesOfPrivateAddresses(t *testing.T) {
	r := newRules(Config{})
	r.resolver = resolver(t, "127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00::1", "::ffff:10.0.0.1")
	dial := r.dialer(noExemption)
	for range 6 {
		_, err := dial(t.Context(), "tcp", "rebound.example:443")
		if !errors.Is(err, ssrf.ErrProhibitedIP) {
			t.Errorf("got %v, want it refused for its address", err)
		}
	}
}

func TestGuard_ChecksPorts(t *testing.T) {
	_, err := newRules(Config{}).dialer(noExemption)(t.Context(), "tcp", "8.8.8.8:22")
	if !errors.Is(err, ssrf.ErrProhibitedPort) {
		t.Error(err)
	}
}

func TestGuard_PrivateAddressIsTheCallersFault(t *testing.T) {
	c := New(Config{})
	_, err := c.Fetch(t.Context(), Fetch{URL: "https://localhost/"})
	if !dispatch.Is(err, dispatch.Invalid) {
		t.Errorf("a user's URL: got %v", err)
	}
	_, err = c.Do(t.Context(), Call{Method: "GET", URL: "https://localhost/"})
	if !dispatch.Is(err, dispatch.Misconfigured) {
		t.Errorf("an endpoint that is not trusted: got %v", err)
	}
}

// A name that does not resolve and one with a private address get the same text, so that users do not learn internal
// names.
func TestFetch_NamesTellNothing(t *testing.T) {
	_, private := New(Config{}).Fetch(t.Context(), Fetch{Op: "o", URL: "https://localhost/"})
	noHost := &net.DNSError{Err: "no such host", Name: "a.example", IsNotFound: true}
	missing := failureAt("o", noHost, false, unusableURL)
	if !dispatch.Is(missing, dispatch.Invalid) || dispatch.TextFor(private) != dispatch.TextFor(missing) {
		t.Errorf("private %q, missing %q", private, missing)
	}
	_, private = New(Config{}).Relay(t.Context(), Relay{Op: "o",
		FileRequest: dispatch.FileRequest{URL: "https://localhost/"}})
	missing = failureAt("o", noHost, false, badLink)
	if dispatch.KindOf(missing) != dispatch.KindOf(private) || dispatch.TextFor(private) != dispatch.TextFor(missing) {
		t.Errorf("a file: private %q, missing %q", private, missing)
	}
}

// A proxy from the environment would connect to unchecked addresses.
func TestClient_UsesNoProxy(t *testing.T) {
	c := New(Config{})
	for _, by := range []network{c.trusted, c.untrusted} {
		if by.reads.(*http.Transport).Proxy != nil || by.effects.opener.Proxy != nil {
			t.Error("the transport knows a proxy")
		}
	}
	if c.trusted.reads == c.untrusted.reads || c.trusted.effects == c.untrusted.effects {
		t.Error("the two share connections")
	}
}

func TestGuard_Trust(t *testing.T) {
	r := newRules(Config{Trust: []string{"http://10.0.0.5:8080/api", "idp.example.org", "https://[fd00::5]:8443"}})
	for address, want := range map[string]bool{
		"10.0.0.5:8080": true, "10.0.0.5:443": false, "idp.example.org:443": true, "IDP.example.org:443": true,
		"idp.example.org:80": false,
		"[fd00::5]:8443":     true, "[fd00::5]:443": false, "nonsense": false,
	} {
		if got := r.trustsAddress(address); got != want {
			t.Errorf("%s: got %t, want %t", address, got, want)
		}
	}
}
