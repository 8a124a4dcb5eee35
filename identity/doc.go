// Package identity verifies who sends a request, and obtains the tokens with which the broker acts on platforms.
//
// A [Verifier] turns a bearer token into a [Caller]. [Tokens] implements dispatch.Tokens. Platforms with access open
// need no token. Platforms with access shared use the token of a service account. Platforms with access user use the
// user's own token for the platform, which the identity provider issues in exchange for the caller's token; each kind
// of exchange is a driver. Exchanges run one at a time for each user in all processes, behind a gate that closes while
// an identity provider fails.
//
// A caller's token is sent to the broker's identity provider only (by the driver passthrough also to a platform of the
// same issuer), and a client secret only to the token endpoint that it belongs to. Redirects are never followed. No
// error contains a token or a secret.
package identity
