package limits

import (
	"cmp"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/eodispatch/eodispatch/api/call"
)

const (
	burstFor = 10 * time.Second // a client that was idle may send at once what its rate allows in this time
	MaxRated = 10_000           // clients in each of the two generations
)

// Rates limits the request rate of each of many clients. Memory is bounded: it keeps two generations of at most
// MaxRated clients each and drops the older one when the newer one is full, so the clients that were idle longest are
// forgotten.
type Rates[K comparable] struct {
	Pace time.Duration // average interval between two requests of one client; 0: unlimited
	most int           // burst of a client that was idle; 0: what pace allows in burstFor

	mu           sync.Mutex
	Newer, Older map[K]*rate.Limiter
}

// Wait counts a request of a client and returns 0 if it may be served. Otherwise it does not count it, and returns the
// time after which the client may try again.
func (r *Rates[K]) Wait(client K) time.Duration {
	if r.Pace <= 0 {
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

func (r *Rates[K]) of(client K) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	if limiter, ok := r.Newer[client]; ok {
		return limiter
	}
	limiter, ok := r.Older[client]
	if !ok {
		limiter = rate.NewLimiter(rate.Every(r.Pace), cmp.Or(r.most, max(1, int(burstFor/r.Pace))))
	}
	if r.Newer == nil || len(r.Newer) >= MaxRated {
		r.Newer, r.Older = map[K]*rate.Limiter{}, r.Newer
	}
	r.Newer[client] = limiter
	return limiter
}

func ErrTooFast(client string, wait time.Duration) call.Refusal {
	return call.Refusal{Status: http.StatusTooManyRequests, Code: "RATE_LIMITED", Message: "Too many requests of " +
		client + ". Wait for the time in the header Retry-After.", Header: call.RetryAfter(wait)}
}

// LimitRate refuses requests of addresses that send too many, with or without a valid token. /health is not limited.
func (a *Admission) LimitRate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			if wait := a.byAddress.Wait(Network(call.In(r.Context()).Address)); wait > 0 {
				a.Refuse(w, r, ErrTooFast("your address", wait))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// Network returns the addresses that count as one client: one IPv4 address, or a /64 of IPv6.
func Network(address netip.Addr) netip.Prefix {
	bits := 32
	if address.Is6() {
		bits = 64
	}
	prefix, _ := address.Prefix(bits)
	return prefix
}

// ClientAddress returns the client's address. Entries of X-Forwarded-For count only as far as trusted proxies added
// them.
func ClientAddress(r *http.Request, trusted []netip.Prefix) netip.Addr {
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	address := from.Addr().Unmap().WithZone("")
	addresses := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(addresses) - 1; i >= 0 && inNetworks(address, trusted); i-- {
		before, err := netip.ParseAddr(strings.TrimSpace(addresses[i]))
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
