package dispatch

import (
	"encoding/json"
	"hash/fnv"
	"slices"
	"strings"
	"time"
)

// Label names the protocol of a service.
type Label string

const (
	OpenEO     Label = "openeo"
	OGCProcess Label = "ogc_api_process"
)

// Service is the service that a client requests, as the client wrote it.
type Service struct {
	Endpoint    string  `json:"endpoint"`
	Namespace   *string `json:"namespace"`
	Application string  `json:"application"`
}

// BackendNamespace is the namespace that openEO reserves for the platform's own processes.
const BackendNamespace = "backend"

// NamespaceAt returns the namespace of a service at a platform of a protocol, by which services are compared; "": none.
// A process in the namespace that openEO reserves for the platform's own processes is the one that is found without a
// namespace.
func (s Service) NamespaceAt(l Label) string {
	if s.Namespace == nil || l == OpenEO && *s.Namespace == BackendNamespace {
		return ""
	}
	return *s.Namespace
}

// LongestFormat is how many characters the name of a format in a [Request], which may be a media type, has at most.
const LongestFormat = 100

// Request is a client's request. Parameters and Options are stored byte for byte.
type Request struct {
	Title   string  `json:"title"`
	Label   Label   `json:"label"`
	Service Service `json:"service"`
	// of a task that spreads its jobs: all, also the one of Service; nil: Service alone
	Placements []Placement `json:"homes,omitempty"`
	// what was not checked, see [Checker]; the broker sets it, not the client
	Warning    string          `json:"warning,omitempty"`
	Parameters json.RawMessage `json:"parameters"` // an object
	Format     string          `json:"format"`
	Options    json.RawMessage `json:"options,omitempty"` // an object for the platform, or nil

	// Facade is what the façade that accepted the request needs again later, such as the form in which the client wants
	// its results. The broker does not read it.
	Facade json.RawMessage `json:"facade,omitempty"`

	// Pin identifies the definition of the service with which the request was accepted and runs, see [Pinner]; "": it
	// runs with the definition at the time of its submission. The broker sets it, not the client.
	Pin string `json:"pin,omitempty"`

	// Process is the process that defines the service if the client sent it with the request: an openEO process with
	// the member process_graph. Parameters are then substituted in the graph, and Options are the further members of
	// the platform's job. It is stored as the document of the service and not with the request, so of the methods of a
	// store only Request returns it.
	Process json.RawMessage `json:"-"`

	// Annotations are stored beside the request, because their owner can change them. No method of a store returns them
	// with it.
	Annotations Annotations `json:"-"`

	// Notify are addresses to notify of the job, or of the task. They become hooks, so that no method of a store
	// returns them.
	Notify []Notify `json:"-"`
}

// inlinePrefix begins the application of a service that a [Request] defines itself. The hash of the process follows. No
// platform has processes with such an id.
const inlinePrefix = "process_graph#"

// Inline reports whether the service is defined by a process that was sent with the request, see [Request].Process.
func (s Service) Inline() bool { return strings.HasPrefix(s.Application, inlinePrefix) }

// Inline returns r with the application that identifies its process. It returns any other request unchanged, but
// Invalid for one whose client names such an application: the processes of requests are known to their owners only.
func (r Request) Inline() (Request, error) {
	switch {
	case r.Process != nil:
		r.Service.Namespace, r.Service.Application = nil, inlinePrefix+Document{Body: r.Process}.Hash()
	case r.Service.Inline():
		return r, InvalidBody("dispatch.Accept", "The application is neither a URL nor the id of a process.", "service",
			"application")
	}
	return r, nil
}

// Record is a job as its owner sees it. While the account is held, a job that is waiting or created has the attention
// of the hold. A waiting job without an attention has ServiceChanged if the document of its service has changed since
// the job was accepted.
type Record struct {
	Job
	Request Request
	Pruned  bool      // its parameters were deleted because of their age, see [Retention]; it cannot run again
	Read    time.Time // when the store read it, by the store's clock, like all times of the job
	// jobs of its account that would be submitted before it now; nil: it is not queued. A store never fills it in
	Ahead *int

	Forecast *Forecast // set by [broker.Broker.ForecastJob] alone; nil: not known

	// Set only for a page whose Most is not 0.
	Size int  // size of the stored request, or of the value for a task's job, in bytes
	Cut  bool // Request or Value is incomplete, because it has more than Most bytes
	// what a task's job adds to the parameters after the name of the first dimension, see [Task].Arguments
	Value json.RawMessage
}

// ParseRequestHead parses the members that precede the parameters in a request stored as JSON. The text may be cut off
// anywhere. An incomplete member is left out.
func ParseRequestHead(text string) (r Request) {
	d := json.NewDecoder(strings.NewReader(text))
	if _, err := d.Token(); err != nil {
		return r
	}
	head := map[any]any{"title": &r.Title, "label": &r.Label, "service": &r.Service, "homes": &r.Placements,
		"warning": &r.Warning}
	for d.More() {
		name, err := d.Token()
		if err != nil || head[name] == nil || d.Decode(head[name]) != nil {
			return r
		}
	}
	return r
}

// RequestHead returns the members that precede the parameters in a request stored as JSON, for [ParseRequestHead]; ""
// for a short request, and for members that lists do not read as a whole.
func RequestHead(text string) string {
	const few = 1 << 10 // bytes
	if len(text) <= few {
		return ""
	}
	from := parametersIn(text) - len(`,"parameters":`)
	if from <= 0 || from > PartMost {
		return ""
	}
	return text[:from]
}

// ParseRequest parses a request stored as JSON. It does not decode large parameters, which takes longer than reading
// them.
func ParseRequest(text string) (r Request, err error) {
	const large = 64 << 10 // bytes
	from := -1
	if len(text) > large {
		from = parametersIn(text)
	}
	if from < 0 {
		return r, json.Unmarshal([]byte(text), &r)
	}
	to := from + valueEnd(text[from:])
	err = json.Unmarshal([]byte(text[:from]+"null"+text[to:]), &r)
	r.Parameters = json.RawMessage(text[from:to])
	return r, err
}

// parametersIn returns where the parameters begin in a request stored as JSON; -1: they are not found.
func parametersIn(text string) int {
	const member = `"parameters":`
	for at := 1; at < len(text); at++ { // after the brace, and then after each comma
		if strings.HasPrefix(text[at:], member) {
			return at + len(member)
		}
		at += valueEnd(text[at:]) // the name
		if at < len(text) {
			at++ // the colon
			at += valueEnd(text[at:])
		}
	}
	return -1
}

// valueEnd returns the length of the value with which a JSON text begins that has no white space.
func valueEnd(text string) int {
	depth := 0
	for at := 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			at = stringEnd(text, at)
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',', ':':
			if depth == 0 {
				return at
			}
		}
		if depth < 0 { // of what the value is in
			return at
		}
	}
	return len(text)
}

// stringEnd returns where the closing quote is of the JSON string whose opening quote is at a position.
func stringEnd(text string, at int) int {
	for begin := at; ; {
		next := strings.IndexByte(text[at+1:], '"')
		if next < 0 {
			return len(text)
		}
		at += 1 + next
		escapes := len(text[begin+1:at]) - len(strings.TrimRight(text[begin+1:at], `\`))
		if escapes%2 == 0 {
			return at
		}
	}
}

// Encode returns r in JSON, without escaping characters of parameters and options.
func (r Request) Encode() ([]byte, error) {
	text, err := Encode(r)
	if err != nil {
		return nil, &Error{Kind: Invalid, Op: "dispatch.Accept", Text: "The request cannot be kept as JSON.", Err: err}
	}
	return text, nil
}

// Complete returns r with an empty object in place of missing parameters.
func (r Request) Complete() Request {
	if len(r.Parameters) == 0 {
		r.Parameters = json.RawMessage("{}")
	}
	return r
}

// WaitsForSlot reports whether a job waits for a slot, or for a platform that accepts no submissions at present, and
// not for an action of its owner or of the operator.
func (r Record) WaitsForSlot() bool {
	return r.Phase == Waiting &&
		slices.Contains([]Attention{None, Full, NotTaken, Unreachable, ServiceChanged}, r.Attention)
}

// IsAwaited reports whether a fresher status of j is awaited.
func (j Job) IsAwaited() bool { return j.Awaited && j.Phase == Started }

// ServiceHash identifies a service of a platform among the runs of an owner. If two services have the same hash, their
// runs are mixed, which does no harm.
type ServiceHash int64

// Hash returns the hash of s without its endpoint, which has several spellings.
func (s Service) Hash() ServiceHash {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.Application)) // cannot fail
	if s.Namespace != nil {
		_, _ = h.Write([]byte("\n" + *s.Namespace))
	}
	return ServiceHash(h.Sum64())
}
