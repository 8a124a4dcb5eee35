package dispatch

import (
	"context"
	"encoding/json"
)

// ProcessDescription is how a platform describes a process in the form of OGC API - Processes.
type ProcessDescription struct {
	Document json.RawMessage // as the platform sent it; an object
	Outputs  []ProcessOutput // in the order of the document
	Sync     bool            // a client can wait for its result
}

// ProcessOutput is an output that a process describes.
type ProcessOutput struct {
	Name     string
	Document json.RawMessage // its description in that of the process
	// its values are bytes that the platform can give as a link, which it would otherwise encode in JSON
	Linkable bool
}

// OutputValue is the value of one output of a finished job: a link, or else Data.
type OutputValue struct {
	Name   string
	Inline json.RawMessage // as it stands in the platform's results document; nil: the platform sent no document
	Media  string          // media type; "": unknown
	Data   []byte          // a JSON text if Media says so
	Link   string          // absolute URL
}

// ProcessDescriber is a platform whose services are processes with outputs of their own. The zero token is enough if
// the platform's documents are public.
type ProcessDescriber interface {
	// Process returns the description of a service's process, NotFound if the platform has none.
	Process(context.Context, Token, Service) (ProcessDescription, error)
	// Processes returns the summaries of the processes in the namespace of a service, whose application does not count.
	Processes(context.Context, Token, Service) ([]json.RawMessage, error)
	// Outputs returns the outputs of a finished job by themselves, or Conflict if it has not finished. An output
	// without a name is the only one.
	Outputs(context.Context, Token, Ref) ([]OutputValue, error)
}
