package dispatch

import (
	"encoding/json"
	"strings"
	"time"
)

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
	Warning    string          `json:"warning,omitempty"` // what was not checked, see [Checker]; the broker sets it, not the client
	Parameters json.RawMessage `json:"parameters"`        // an object
	Format     string          `json:"format"`
	Options    json.RawMessage `json:"options,omitempty"` // an object for the platform, or nil
}

// The options that are ours; all others are the platform's.
const (
	optionValidate    = "validate"     // false: submit without checking the parameters against the service's schemas
	optionMaxDuration = "max_duration" // seconds that a job may take at its platform, from its start
)

// Checked reports whether the parameters of r are to be checked, which they are unless the client said otherwise.
func (r Request) Checked() bool {
	return string(r.options()[optionValidate]) != "false"
}

// MaxDuration is how long the job may take once it has started; 0: as long as it does.
func (r Request) MaxDuration() time.Duration {
	var seconds int64
	if json.Unmarshal(r.options()[optionMaxDuration], &seconds) != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

func (r Request) options() map[string]json.RawMessage {
	members := map[string]json.RawMessage{}
	if json.Unmarshal(r.Options, &members) != nil {
		return nil
	}
	return members
}

// PlatformOptions are the options of r that the platform is given; nil: none.
func (r Request) PlatformOptions() json.RawMessage {
	members := r.options()
	if members[optionValidate] == nil && members[optionMaxDuration] == nil {
		return r.Options
	}
	delete(members, optionValidate)
	delete(members, optionMaxDuration)
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
	Read    time.Time // when the store gave it, by the store's clock, as all times of the job
	Ahead   *int      // how many of its account are submitted before it, as things are; nil: it does not wait for its turn. Store never fills it in

	// What a page tells whose Most is not 0.
	Size  int             // bytes of the request as it is kept, or for a task's job of its value
	Cut   bool            // Request, or Value, is not whole: it has more than Most bytes
	Value json.RawMessage // of the task's dimension
}

// HeadOf reads what a request that is kept as JSON says before its parameters. The text may be cut off anywhere: what is not
// whole is left out.
func HeadOf(text string) (r Request) {
	d := json.NewDecoder(strings.NewReader(text))
	if _, err := d.Token(); err != nil {
		return r
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return r
		}
		switch name {
		case "title":
			err = d.Decode(&r.Title)
		case "label":
			err = d.Decode(&r.Label)
		case "service":
			err = d.Decode(&r.Service)
		case "warning":
			err = d.Decode(&r.Warning)
		default:
			return r
		}
		if err != nil {
			return r
		}
	}
	return r
}
