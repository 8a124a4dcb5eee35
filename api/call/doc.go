// Package call holds the state of one request, and answers those that fail: its caller, its correlation id, and the one
// table from error kinds to responses.
package call
