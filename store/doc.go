// Package store keeps jobs in SQLite or in PostgreSQL: a [dispatch.Store] with one set of queries and one set of
// migrations for both. Apart from them differ the clock, and how connections are shared. Every commit is on the disk
// when it returns.
//
// The queries are in query.sql; package query is generated from them:
package store

//go:generate go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1 generate
