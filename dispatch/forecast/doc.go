// Package forecast computes, from the runs that have finished, how long runs take, when jobs and tasks start and end,
// and what they cost. It is pure.
package forecast
