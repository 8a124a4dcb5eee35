// Package identity says who is asking, and gets the tokens with which the broker acts at platforms.
//
// A [Verifier] turns a bearer token into a [Caller]. [Tokens] implements dispatch.Tokens: none for open platforms, one
// token of a service account for shared ones, and for the others the user's own, which the identity provider gives in
// exchange for the caller's: by one of several drivers, each in a file of its own, one at a time for each user in all
// processes, and behind a gate that closes while an identity provider does not work.
//
// A caller's token is sent to the broker's identity provider only (or, by the driver passthrough, to a platform of the same
// issuer), a client secret only to the token endpoint that it belongs to. Redirects are never followed. No error carries any
// of them.
package identity
