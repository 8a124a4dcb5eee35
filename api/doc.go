// Package api serves the broker over HTTP: the routes, the models on the wire, and the one table from error kinds to
// answers.
//
// A request passes one chain: it gets its correlation id, is checked for its origin, finds its route, is authenticated
// unless the route is declared open in the OpenAPI document, and is answered. Bodies are read by this package and not
// by huma, because the answer to a bad one is part of the contract: every fault at once, each at its own place, and
// nothing of the parameters changed by a digit. huma keeps the document true to the routes and writes the answers.
package api
