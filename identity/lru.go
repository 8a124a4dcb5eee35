package identity

import "github.com/hashicorp/golang-lru/v2/simplelru"

// lru keeps the most recently used values. It is not safe for concurrent use.
type lru[K comparable, V any] = simplelru.LRU[K, V]

func newLRU[K comparable, V any](max int) *lru[K, V] {
	l, _ := simplelru.NewLRU[K, V](max, nil) // fails for max < 1 only
	return l
}
