// Package client calls a broker over its HTTP interface: it submits jobs and tasks, follows them, and downloads their
// results.
//
// Package wire has the types, with the names and descriptions of the OpenAPI document that every broker serves at
// /openapi.json. Requests that may be repeated are repeated after a lost response; a submission carries an
// Idempotency-Key, so that its repetition submits nothing twice.
package client
