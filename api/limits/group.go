package limits

import "sync"

// group counts running functions and open streams. After close it admits no more.
type group struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// Enter counts one more until release is called, once. It reports false if the group is closed.
func (g *group) Enter() (release func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, false
	}
	g.wg.Add(1)
	return g.wg.Done, true
}

// Close stops admitting and waits until all that entered have left.
func (g *group) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.wg.Wait()
}
