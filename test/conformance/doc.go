// Package conformance holds what every [dispatch.Platform], [dispatch.Store] and [dispatch.Engine] must do, as suites of
// tests, and what misbehaves on purpose: a world of platforms that knows what really happened, and a store in memory.
package conformance
