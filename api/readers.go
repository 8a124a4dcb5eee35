package api

import (
	"context"

	"github.com/eodispatch/eodispatch/budget"
	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	readsAtOnce = 16 // more readers wait, so that some finish early instead of all finishing late
	readsOfUser = 4  // of these for one user, so that a user with many tasks delays nobody else
)

// readers bounds the snapshots that are read at once, in total and for each user.
type readers struct {
	*budget.Places[dispatch.UserID]
}

func newReaders() *readers {
	return &readers{budget.NewPlaces[dispatch.UserID](readsAtOnce, readsOfUser)}
}

// enter waits for a place.
func (r *readers) enter(u dispatch.UserID) (release func()) {
	release, _ = r.Acquire(context.Background(), u, 1) // the context cannot end
	return release
}
