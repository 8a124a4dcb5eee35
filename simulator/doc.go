// Package simulator is the far side of the broker: an openEO back-end ([OpenEO]), an OGC API - Processes server ([OGC])
// and an identity provider ([IdP]). They hold thousands of jobs, behave as their specifications say, and misbehave on
// demand ([Fault], [Life]). An [Oracle] counts what really happened to each job, whatever its clients believe.
//
// Each is an [http.Handler] whose zero value behaves well. Nothing runs between requests: how a job stands is a function
// of the time, which comes from outside, and of a seed. So they work on any listener and on in-memory connections inside
// testing/synctest, and ten thousand jobs cost their memory only. [Start] puts all three on loopback.
//
// The identity provider is our own, on go-jose: what the broker talks to is Keycloak, whose exchange by
// requested_issuer, broker endpoint, password grant and error bodies no OIDC provider library has. What would remain for
// a library is discovery and key set, two short documents.
package simulator
