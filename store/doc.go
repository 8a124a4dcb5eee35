// Package store keeps jobs in SQLite or in PostgreSQL: a store with one set of queries for both. Their
// schemas, in the folder schema, differ in little, and so do the clock and how connections are shared. Every commit is
// on the disk when it returns.
//
// The SQL of a method stands in it, as one text for both databases; sql.go has what runs it. Changes of jobs are the
// exception: all of them go through apply in write.go, which writes, in one transaction and in this order:
//
//	tasks, jobs       are locked, those of each table in the order of their ids
//	owners            the owner takes the next change number, if the owner sees the change
//	jobs              the groups of columns that differ, see groups in columns.go
//	task_numbers      the task takes the number, too
//	deliveries        notices of the job, see notices.go
//	task_counts, the ledger (usage and spending), owner_counts, line_counts, account_counts
//	deliveries        notices of the task
//	accounts          is woken, or its hold changes
//
// For a cancel of a job that runs that is a number, desired and due; its visit cancels it at the platform and writes
// the end (Save). A change of a large task does the same for a part of its jobs at a time (task_changes). The table
// events is written afterwards, by package history, and may lack some.
package store
