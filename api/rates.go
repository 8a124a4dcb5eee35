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
	burstFor = 10 * time.Second // a client that was quiet may send what it may send in this time at once
	maxRated = 10_000           // clients in each of the two generations of rates
)

// rates bound the requests of each of many clients. Who has been quiet for longest is forgotten when there are too many, so
// that memory is bounded: two generations are kept, and the older is dropped when the newer is full.
type rates[K comparable] struct {
	pace time.Duration // of one client's requests; 0: no bound
	most int           // at once, of a client that was quiet; 0: those of burstFor

	mu           sync.Mutex
	newer, older map[K]*rate.Limiter
}

// wait counts a request. It is not to be served when it would have to wait for longer than 0.
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
	return refusal{status: http.StatusTooManyRequests, code: "RATE_LIMITED", message: "There are too many requests of " + whose + ". Wait before you send more.",
		header: retryAfter(wait)}
}

// rated refuses requests of addresses that send too many, also those without a valid token. Probes of health are not counted.
func (a *api) rated(next http.Handler) http.Handler {
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

// network is what one client has of addresses: one of version 4, and 2⁶⁴ of version 6.
func network(address netip.Addr) netip.Prefix {
	bits := 32
	if address.Is6() {
		bits = 64
	}
	prefix, _ := address.Prefix(bits)
	return prefix
}

// clientAddress is where r comes from. What X-Forwarded-For says counts as far as trusted proxies have written it.
func clientAddress(r *http.Request, trusted []netip.Prefix) netip.Addr {
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	address := from.Addr().Unmap().WithZone("")
	said := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(said) - 1; i >= 0 && belongs(address, trusted); i-- {
		before, err := netip.ParseAddr(strings.TrimSpace(said[i]))
		if err != nil {
			break
		}
		address = before.Unmap().WithZone("")
	}
	return address
}

func belongs(address netip.Addr, networks []netip.Prefix) bool {
	for _, n := range networks {
		if n.Contains(address) {
			return true
		}
	}
	return false
}
