package dispatch

// SetInMap sets an entry of a map, which it makes first if there is none.
func SetInMap[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}
