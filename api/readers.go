package api

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	readsAtOnce = 16 // more readers wait, so that some finish early instead of all finishing late
	readsOfUser = 4  // of these for one user, so that a user with many tasks delays nobody else
)

// readers bounds the snapshots that are read at once, in total and for each user.
type readers struct {
	all chan struct{}
	own shares[dispatch.UserID]
}

func newReaders() *readers {
	return &readers{all: make(chan struct{}, readsAtOnce), own: shares[dispatch.UserID]{most: readsOfUser}}
}

// enter waits for a place, first among those of the user: a user who waits for their own holds no common place.
func (r *readers) enter(u dispatch.UserID) (release func()) {
	part, _ := r.own.acquire(context.Background(), u, 1) // the context cannot end
	r.all <- struct{}{}
	return func() {
		<-r.all
		part()
	}
}
