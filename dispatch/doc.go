// Package dispatch holds the nouns of the broker, and the rules that need nothing else: jobs and tasks, what a request
// asks for, who gets the next slot, budgets and quotas, and the port to platforms. What a package keeps is in its own
// port.
//
// A [Job] is one row in the store, and the row is authoritative: after a crash it shows what the broker was about to
// do, what it knows and what is due next. One pure function, [Next], decides what a response means for a job; each of
// its rules has a row in a table test. Package visit sends the requests, package broker does what clients ask for.
//
// Package dispatch imports only the standard library.
package dispatch
