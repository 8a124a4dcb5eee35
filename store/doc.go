// Package store keeps jobs in SQLite or in PostgreSQL: a store with one schema, in schema.sql, and one set of queries
// for both. What differs is the clock, and how connections are shared. Every commit is on the disk when it returns.
//
// The SQL of a method stands in it, as one text for both databases; sql.go has what runs it. Changes of jobs are the
// exception: all of them go through apply in write.go, which writes, in one transaction and in this order:
//
//	tasks, jobs       are locked, those of each table in the order of their ids
//	owners            the owner takes the next change number, if the owner sees the change
//	jobs              the groups of columns that differ, see groups in columns.go
//	task_numbers      the task takes the number, too
//	deliveries        notices of the job, see notices.go
//	counts and sums   of tasks, owners, queues, accounts, months and labels, see tallies in consequences.go
//	deliveries        notices of the task
//	accounts          is woken, or its hold changes
//
// The cancel of a job that runs (cancel.go) so writes owners.change, task_numbers.change, jobs.desired, due, version
// and changed, and accounts.due and wakes; its visit cancels it at the platform and writes the end (save.go). A job
// that waits ends at once: its phase, status, moved and updated, the counts and the notices change, too. A change of a
// large task does the same for a part of its jobs at a time (task_changes), after it has changed the task itself.
//
// Results and Items are written by a broker that has read them (items.go), and the history of jobs, the table events,
// by package history (job_history.go). Both come after the change and may be missing.
package store
