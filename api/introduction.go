package api

import (
	_ "embed"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/dispatch"
)

// introduction stands at the head of the document, in Markdown.
//
//go:embed introduction.md
var introduction string

// streamsText describes the WebSockets, for which OpenAPI has no form.
//
//go:embed streams.md
var streamsText string

// tags are the groups of operations in the order in which the page shows them.
var tags = []*huma.Tag{
	{Name: "jobs", Description: "One job on one platform: submit it, look at it, fetch its results."},
	{Name: "tasks", Description: "One request over many values, such as the tiles of a region: a job for each."},
	{Name: "streams", Description: streamsText},
	{Name: "services", Description: "The platforms, and what their services take."},
	{Name: "tiles", Description: "Areas as values of a task. No token is needed."},
	{Name: "service", Description: "The broker itself."},
	{Name: "access", Description: "What the broker may do while you are away, and what you have used."},
}

// endpointOf is the address of a platform for examples.
func (a *api) endpointOf(l dispatch.Label) string {
	switch {
	case a.Endpoints[l] != "":
		return a.Endpoints[l]
	case l == dispatch.OpenEO:
		return "https://openeo.example.org"
	}
	return "https://processes.example.org"
}
