// Package broker does what clients ask for: it accepts, reads, lists, cancels and retries jobs and tasks, and gets
// their results. Package visit sends the requests that create, start and cancel jobs.
package broker
