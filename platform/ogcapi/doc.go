// Package ogcapi runs services on platforms that speak OGC API - Processes: Part 1 version 1.0 (OGC 18-062r2), its 2.0
// draft, and what servers in the field make of them.
//
// One request executes a process, and the server names the job; nothing that we send comes back in a listing, so a
// submission whose answer was lost cannot be recognised. Everything below the configured endpoint on its origin is the
// platform's; nothing else is ever given its token.
package ogcapi
