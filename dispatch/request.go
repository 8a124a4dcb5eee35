package dispatch

import "encoding/json"

// Label names the protocol of a service.
type Label string

const (
	OpenEO     Label = "openeo"
	OGCProcess Label = "ogc_api_process"
)

// Service is what a client asks to run, in the client's spelling.
type Service struct {
	Endpoint    string  `json:"endpoint"`
	Namespace   *string `json:"namespace"`
	Application string  `json:"application"`
}

// Request is what a client asked for. Parameters and Options are kept to the byte.
type Request struct {
	Title      string          `json:"title"`
	Label      Label           `json:"label"`
	Service    Service         `json:"service"`
	Parameters json.RawMessage `json:"parameters"` // an object
	Format     string          `json:"format"`
	Options    json.RawMessage `json:"options,omitempty"` // an object for the platform, or nil
}

// ownOptions are the options that are ours; all others are the platform's.
type ownOptions struct {
	Validate *bool `json:"validate"` // false: submit without checking the parameters against the service's schemas
}

// Checked reports whether the parameters of r are to be checked, which they are unless the client said otherwise.
func (r Request) Checked() bool {
	var own ownOptions
	if len(r.Options) > 0 && json.Unmarshal(r.Options, &own) != nil {
		return true
	}
	return own.Validate == nil || *own.Validate
}

// PlatformOptions are the options of r that the platform is given; nil: none.
func (r Request) PlatformOptions() json.RawMessage {
	members := map[string]json.RawMessage{}
	if json.Unmarshal(r.Options, &members) != nil || members["validate"] == nil {
		return r.Options
	}
	delete(members, "validate")
	if len(members) == 0 {
		return nil
	}
	rest, err := json.Marshal(members)
	if err != nil {
		return r.Options
	}
	return rest
}

// Record is a job as its owner sees it. A waiting job whose own attention is None has that of its account while that is
// held, else ServiceChanged if the document of its service has changed since it was accepted.
type Record struct {
	Job
	Request Request
}
