// Package identity says who is asking, and gets the tokens with which the broker acts at platforms.
//
// A [Verifier] turns a bearer token into a [Caller]. [Tokens] implements dispatch.Tokens: none for open platforms, one
// token of a service account for shared ones, and for the others the user's own, which the identity provider gives in
// exchange for the caller's.
//
// A caller's token is sent to the broker's identity provider only, a client secret only to the token endpoint that it
// belongs to. Redirects are never followed. No error carries any of them.
package identity
