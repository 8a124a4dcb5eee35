// Package documents fetches the documents that define services, watches them for changes, and keeps those that jobs are
// pinned to.
package documents
