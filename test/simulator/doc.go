// Package simulator simulates the servers that the broker talks to: an openEO back-end ([OpenEO]), an OGC API -
// Processes server ([OGC]) and an identity provider ([IdP]). They hold thousands of jobs, follow their specifications,
// and misbehave on demand ([Fault], [Life]). An [Oracle] counts what really happened to each job, whatever its clients
// saw.
//
// Each is an [http.Handler] whose zero value behaves well. Nothing runs between requests: the state of a job is a
// function of a seed and of the time, which is passed in. So they work on any listener and on in-memory connections
// inside testing/synctest, and ten thousand jobs cost only their memory. [Start] starts all three on the loopback
// interface.
//
// The identity provider is written by hand on go-jose, because the broker talks to Keycloak, whose exchange by
// requested_issuer, brokering API, password grant and error bodies no OIDC provider library has. A library would only
// provide discovery and the key set, two short documents.
package simulator
