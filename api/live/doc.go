// Package live reads jobs, tasks and lists of them, once, after a change, or as a stream, and writes them as clients
// see them.
package live
