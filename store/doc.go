// Package store keeps jobs in SQLite or in PostgreSQL: a [dispatch.Store] with one set of queries for both. Their
// schemas, in the folder schema, differ in little, and so do the clock and how connections are shared. Every commit is
// on the disk when it returns.
//
// The queries are in query.sql. make generate generates package query from them and from the schema, and make check fails
// if it is not up to date.
package store
