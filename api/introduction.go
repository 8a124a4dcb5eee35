package api

import (
	_ "embed"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/dispatch"
)

// introduction is the text at the head of the OpenAPI document, in Markdown.
//
//go:embed introduction.md
var introduction string

// streamsText describes the WebSocket streams, which OpenAPI cannot describe.
//
//go:embed streams.md
var streamsText string

// tags are the groups of operations, in the order in which the documentation page shows them.
var tags = []*huma.Tag{
	{Name: "jobs", Description: "One job on one platform: submit it, follow its status, fetch its results."},
	{Name: "tasks", Description: "One request with many values, such as the tiles of a region: a job for each value."},
	{Name: "streams", Description: streamsText},
	{Name: "services", Description: "The catalogue of services, their parameters, and the platforms."},
	{Name: "tiles", Description: "Split areas into the values of a task. No token is needed."},
	{Name: "service", Description: "The health of the broker."},
	{Name: "hooks", Description: "Your own servers that are notified when your jobs end."},
	{Name: "access", Description: "Permissions to run jobs after you sign out, and your usage."},
}

// endpointOf returns the address of a platform for the examples.
func (a *api) endpointOf(l dispatch.Label) string {
	switch {
	case a.Endpoints[l] != "":
		return a.Endpoints[l]
	case l == dispatch.OpenEO:
		return "https://openeo.example.org"
	}
	return "https://processes.example.org"
}
