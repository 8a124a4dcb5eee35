// Package engine decides when accounts are visited. The account rows are the queue: the process that obtains a lease by
// Store.Dequeue runs the visit. Notifications and planned times trigger Dequeue; a poll every 2 s finds what they
// missed, so they may be lost. Every process, alone or one of many, works in the same way.
package engine
