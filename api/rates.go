package api

import (
	"cmp"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	burstFor = 10 * time.Second // a client that was idle may send at once what its rate allows in this time
	maxRated = 10_000           // clients in each of the two generations
)

// rates limits the request rate of each of many clients. Memory is bounded: it keeps two generations of at most
// maxRated clients each and drops the older one when the newer one is full, so the clients that were idle longest are
// forgotten.
type rates[K comparable] struct {
	pace time.Duration // average interval between two requests of one client; 0: unlimited
	most int           // burst of a client that was idle; 0: what pace allows in burstFor

	mu           sync.Mutex
	newer, older map[K]*rate.Limiter
}

// wait counts a request of a client and returns 0 if it may be served. Otherwise it does not count it, and returns the
// time after which the client may try again.
func (r *rates[K]) wait(client K) time.Duration {
	if r.pace <= 0 {
		return 0
	}
	now := time.Now()
	reservation := r.of(client).ReserveN(now, 1)
	delay := reservation.DelayFrom(now)
	if delay > 0 {
		reservation.CancelAt(now)
	}
	return delay
}

func (r *rates[K]) of(client K) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	if limiter, ok := r.newer[client]; ok {
		return limiter
	}
	limiter, ok := r.older[client]
	if !ok {
		limiter = rate.NewLimiter(rate.Every(r.pace), cmp.Or(r.most, max(1, int(burstFor/r.pace))))
	}
	if r.newer == nil || len(r.newer) >= maxRated {
		r.newer, r.older = map[K]*rate.Limiter{}, r.newer
	}
	r.newer[client] = limiter
	return limiter
}

func errTooFast(whose string, wait time.Duration) refusal {
	return refusal{status: http.StatusTooManyRequests, code: "RATE_LIMITED", message: "Too many requests of " + whose +
		". Wait for the time in the header Retry-After.",
		header: retryAfter(wait)}
}

// limitRate refuses requests of addresses that send too many, with or without a valid token. /health is not limited.
func (a *api) limitRate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			if wait := a.byAddress.wait(network(callIn(r.Context()).address)); wait > 0 {
				a.refuse(w, r, errTooFast("your address", wait))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// network returns the addresses that count as one client: one IPv4 address, or a /64 of IPv6.
func network(address netip.Addr) netip.Prefix {
	bits := 32
	if address.Is6() {
		bits = 64
	}
	prefix, _ := address.Prefix(bits)
	return prefix
}

// clientAddress returns the client's address. Entries of X-Forwarded-For count only as far as trusted proxies added
// them.
func clientAddress(r *http.Request, trusted []netip.Prefix) netip.Addr {
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	address := from.Addr().Unmap().WithZone("")
	said := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(said) - 1; i >= 0 && inNetworks(address, trusted); i-- {
		before, err := netip.ParseAddr(strings.TrimSpace(said[i]))
		if err != nil {
			break
		}
		address = before.Unmap().WithZone("")
	}
	return address
}

func inNetworks(address netip.Addr, networks []netip.Prefix) bool {
	for _, n := range networks {
		if n.Contains(address) {
			return true
		}
	}
	return false
}
