// Package api serves the broker over HTTP: the routes and their handlers.
//
// A request passes one chain: it gets its correlation id (call), is checked for its origin, waits for its turn
// (limits), finds its route, is authenticated unless the route is declared open in the OpenAPI document (openapi), and
// is answered. Lists and streams are read by live, and what browsers show is served by pages.
package api
