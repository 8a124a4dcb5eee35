// Package broker does what clients ask for: it accepts, reads, lists, cancels and retries jobs and tasks, and gets their
// results. What platforms are asked for on behalf of jobs is asked for by package visit.
package broker
