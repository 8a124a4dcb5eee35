// Package visit does the work of accounts. Every request that changes a platform's jobs is sent from a visit
// ([Visits.Visit]), and only one process in the cluster visits an account at a time: it reads the agenda, chooses
// steps, commits the intents of those that create or start anything, sends them, and saves what the responses mean.
package visit
