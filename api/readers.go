package api

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	readsAtOnce = 16 // so many readings at once, each to its end: when thousands look, not all wait for the last
	readsOfUser = 4  // of these for one user, so that one who looks at thousands of tasks delays nobody else
)

// readers bounds how many readings are under way, in all and for each user.
type readers struct {
	all chan struct{}
	own shares[dispatch.UserID]
}

func newReaders() *readers {
	return &readers{all: make(chan struct{}, readsAtOnce), own: shares[dispatch.UserID]{most: readsOfUser}}
}

// enter waits for a place, the user's own first: who waits for that holds no other.
func (r *readers) enter(u dispatch.UserID) (release func()) {
	part, _ := r.own.acquire(context.Background(), u, 1) // which does not end
	r.all <- struct{}{}
	return func() {
		<-r.all
		part()
	}
}
