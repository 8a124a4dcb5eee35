// Package conformance contains the test suites that every [dispatch.Platform], [Store] and [dispatch.Engine]
// must pass, a simulated world of platforms that misbehaves and knows what really happened, and a store in memory.
package conformance
