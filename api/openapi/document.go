package openapi

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/limits"
	"github.com/eodispatch/eodispatch/dispatch"
)

// Config says what a document describes.
type Config struct {
	Title, Description, Version string
	PublicURL                   string                    // "": the document names no server
	SessionCookie               string                    // "": browsers have no sessions
	Endpoints                   map[dispatch.Label]string // of examples; see endpointOf
	Limits                      limits.Limits
	Compat                      Compat
	Health                      func(context.Context) error // returns nil if the database answers
	Log                         *slog.Logger
}

// Document is the OpenAPI document of the interface. Operations are registered with it, and it validates their bodies.
type Document struct {
	*call.Answers
	huma.API
	Config
	shapes func() map[reflect.Type]*jsonschema.Schema // of request bodies
}

func init() { huma.DefaultArrayNullable = false } // what writes a list writes [] for an empty one

// New returns a document whose operations are served by mux.
func New(mux *http.ServeMux, c Config, answers *call.Answers) *Document {
	a := &Document{Answers: answers, Config: c}
	a.API = humago.New(mux, a.document())
	for t, schema := range opaque {
		a.OpenAPI().Components.Schemas.RegisterTypeAlias(t, schema)
	}
	a.shapes = sync.OnceValue(a.compileBodies)
	return a
}
