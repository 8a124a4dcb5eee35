// Package dispatch submits jobs to external platforms and follows each job until it ends.
//
// A [Job] is one row in the [Store], and the row is authoritative: after a crash it shows what the broker was about to
// do, what it knows and what is due next. Every request that changes a platform's jobs is sent from a visit
// ([Broker.Visit]), and only one process in the cluster visits an account at a time. One pure function, next, decides
// what a response means for a job; each of its rules has a row in a table test.
//
// Package dispatch imports only the standard library.
package dispatch
