// Package hub passes on, inside a process and to other processes, that something has changed: to readers that wait, and
// to visits.
package hub
