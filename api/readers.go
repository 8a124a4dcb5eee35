package api

import (
	"sync"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	readingAtOnce = 16 // so many readings at once, each to its end: when thousands look, not all wait for the last
	readingOfUser = 4  // of these for one user, so that one who looks at thousands of tasks delays nobody else
)

// readers bounds how many readings are under way, in all and for each user.
type readers struct {
	all chan struct{}
	mu  sync.Mutex
	of  map[dispatch.UserID]*lane
}

// lane is the readings of one user. It is kept while there are any.
type lane struct {
	places  chan struct{}
	members int // that read or wait
}

func newReaders() *readers {
	return &readers{all: make(chan struct{}, readingAtOnce), of: map[dispatch.UserID]*lane{}}
}

// enter waits for a place, the user's own first: who waits for that holds no other.
func (r *readers) enter(u dispatch.UserID) (leave func()) {
	l := r.join(u)
	l.places <- struct{}{}
	r.all <- struct{}{}
	return func() {
		<-r.all
		<-l.places
		r.part(u, l)
	}
}

func (r *readers) join(u dispatch.UserID) *lane {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of[u] == nil {
		r.of[u] = &lane{places: make(chan struct{}, readingOfUser)}
	}
	r.of[u].members++
	return r.of[u]
}

func (r *readers) part(u dispatch.UserID, l *lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.members--; l.members == 0 {
		delete(r.of, u)
	}
}
