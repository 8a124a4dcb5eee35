package visit

import (
	"context"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/forecast"
)

const (
	runTimesFresh = time.Minute // how old run times may be that other replicas may have added to
	manyServices  = 1000        // services in the cache; it is emptied when it has more
	// run times of a service that are stored together, once as many as four times that are known
	runTimesBatch = 16
)

// ServiceAt is a service of a platform.
type ServiceAt struct {
	Platform string
	Service  dispatch.ServiceHash
}

// runTimesCache holds what is known about run times, and what was seen and is not stored yet. What a process that ends
// has not stored is lost, which does no harm.
type runTimesCache struct {
	mu sync.Mutex
	of map[ServiceAt]*cachedRunTimes
}

type cachedRunTimes struct {
	known, unsaved dispatch.RunTimes
	read           time.Time              // when known was read; zero: never
	curve          *forecast.RunTimeCurve // nil: to be computed again
}

func (c *runTimesCache) at(s ServiceAt) *cachedRunTimes {
	if c.of[s] == nil {
		if len(c.of) >= manyServices {
			c.of = nil
		}
		dispatch.SetInMap(&c.of, s, &cachedRunTimes{})
	}
	return c.of[s]
}

// add adds a run time that was seen.
func (c *runTimesCache) add(s ServiceAt, seen dispatch.RunTime) {
	c.mu.Lock()
	defer c.mu.Unlock()
	is := c.at(s)
	is.unsaved, is.curve = is.unsaved.Add(seen), nil
}

// Curve returns the distribution of the run times of a service. It reads them from the store if they are not fresh.
func (c *runTimesCache) Curve(ctx context.Context, store Store, s ServiceAt) (*forecast.RunTimeCurve, error) {
	c.mu.Lock()
	read := c.at(s).read
	c.mu.Unlock()
	if read.IsZero() || time.Since(read) > runTimesFresh {
		if err := c.exchange(ctx, store, s); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	is := c.at(s)
	if is.curve == nil {
		is.curve = forecast.NewRunTimeCurve(is.known.Add(is.unsaved...))
	}
	return is.curve, nil
}

// save stores what was seen of a service if that is much compared with what is known.
func (c *runTimesCache) save(ctx context.Context, store Store, s ServiceAt) error {
	c.mu.Lock()
	is := c.at(s)
	enough := len(is.unsaved) >= max(1, min(runTimesBatch, len(is.known)/4))
	c.mu.Unlock()
	if !enough {
		return nil
	}
	return c.exchange(ctx, store, s)
}

// exchange stores what was seen of a service and reads what all replicas have seen.
func (c *runTimesCache) exchange(ctx context.Context, store Store, s ServiceAt) error {
	c.mu.Lock()
	is := c.at(s)
	seen := is.unsaved
	is.unsaved = nil
	c.mu.Unlock()
	known, err := store.AddRunTimes(ctx, s.Platform, s.Service, seen...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		is.known, is.read, is.curve = known, time.Now(), nil
	}
	return err
}
