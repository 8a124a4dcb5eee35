// Package ogcapi runs services on platforms that implement OGC API - Processes: Part 1 version 1.0 (OGC 18-062r2), its
// 2.0 draft, and the deviations of servers in the field.
//
// A job takes one request: it executes the process, and the server names the job. A listing returns nothing that the
// client sent, so a submission whose response was lost cannot be recognised. Everything below the configured endpoint,
// on its origin, belongs to the platform; its token is sent nowhere else.
package ogcapi
