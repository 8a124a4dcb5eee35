package openapi

import (
	_ "embed"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eodispatch/eodispatch/dispatch"
)

// introduction is the text at the head of the OpenAPI document, in Markdown.
//
//go:embed introduction.md
var introduction string

// StreamsText describes the WebSocket streams, which OpenAPI cannot describe.
//
//go:embed streams.md
var StreamsText string

// JobTags and TaskTags are the groups of operations that the deployed service has, too. Generated clients name packages
// after them.
var JobTags, TaskTags = []string{"Unit Jobs"}, []string{"Upscale Tasks"}

// tags are the groups of operations, in the order in which the documentation page shows them.
var tags = []*huma.Tag{
	{Name: JobTags[0], Description: "One job on one platform: submit it, follow its status, fetch its results."},
	{Name: TaskTags[0],
		Description: "One request with many values, such as the tiles of a region: a job for each value. " +
			"No token is needed to split areas into values."},
	{Name: "streams", Description: StreamsText},
	{Name: "services", Description: "The catalogue of services, and the platforms."},
	{Name: "service", Description: "The health of the broker."},
	{Name: "hooks", Description: "Your own servers that are notified when your jobs end."},
	{Name: "access", Description: "Permissions to run jobs after you sign out, and your usage."},
}

// endpointOf returns the address of a platform for the examples.
func (a *Document) endpointOf(l dispatch.Label) string {
	switch {
	case a.Endpoints[l] != "":
		return a.Endpoints[l]
	case l == dispatch.OpenEO:
		return "https://openeo.example.org"
	}
	return "https://processes.example.org"
}
