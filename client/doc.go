// Package client calls a broker over its HTTP interface: it submits jobs and tasks, follows them, and downloads their
// results.
//
// The types are those of the OpenAPI document that every broker serves at /openapi.json; its descriptions of the
// members apply. Requests that may be repeated are repeated after a lost response; a submission carries an
// Idempotency-Key, so that its repetition submits nothing twice.
package client
