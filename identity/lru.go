package identity

import "container/list"

// lru keeps the max most recently used values. It is not safe for concurrent use.
type lru[K comparable, V any] struct {
	max   int
	order *list.List // of entry, most recently used first
	items map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

func newLRU[K comparable, V any](max int) *lru[K, V] {
	return &lru[K, V]{max: max, order: list.New(), items: map[K]*list.Element{}}
}

func (l *lru[K, V]) get(k K) (V, bool) {
	e, ok := l.items[k]
	if !ok {
		var none V
		return none, false
	}
	l.order.MoveToFront(e)
	return e.Value.(*entry[K, V]).value, true
}

func (l *lru[K, V]) put(k K, v V) {
	if e, ok := l.items[k]; ok {
		e.Value.(*entry[K, V]).value = v
		l.order.MoveToFront(e)
		return
	}
	if len(l.items) == l.max {
		l.drop(l.order.Back().Value.(*entry[K, V]).key)
	}
	l.items[k] = l.order.PushFront(&entry[K, V]{k, v})
}

func (l *lru[K, V]) drop(k K) {
	if e, ok := l.items[k]; ok {
		l.order.Remove(e)
		delete(l.items, k)
	}
}
