// Package store keeps jobs in SQLite or in PostgreSQL: a store with one set of queries for both. Their
// schemas, in the folder schema, differ in little, and so do the clock and how connections are shared. Every commit is
// on the disk when it returns.
//
// The SQL of a method stands in it, as one text for both databases; sql.go has what runs it. Whoever changes what is
// counted of jobs goes through write.go.
package store
