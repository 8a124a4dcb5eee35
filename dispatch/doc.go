// Package dispatch carries jobs to external platforms and follows each until it ends.
//
// A [Job] is one row in the [Store], and the row is the truth: whoever starts after a crash finds in it what was
// intended, what was learnt and what is due. Everything that has an effect on a platform's jobs is said in a visit
// ([Broker.Visit]), which is exclusive for its account in the whole cluster. What an answer means is one pure function,
// next, and its table test holds every rule.
//
// Package dispatch imports only the standard library.
package dispatch
