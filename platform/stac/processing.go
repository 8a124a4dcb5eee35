package stac

import (
	"encoding/json"
	"strings"
	"time"
)

// ProcessingExtension is the identifier of the STAC extension whose fields [Processing] has.
const ProcessingExtension = "https://stac-extensions.github.io/processing/v1.2.0/schema.json"

// The relation types of links to how something was processed: of the extension, and of W3C PROV-AQ.
const (
	RelExecution  = "processing-execution"
	RelProvenance = "http://www.w3.org/ns/prov#has_provenance"
)

// Processing says how results were processed. What is not known is zero, and left out.
type Processing struct {
	Facility string            // who ran the software
	URL      string            // of the facility
	Software map[string]string // versions by name
	Lineage  string            // plain text
	Time     time.Time         // when the processing ended
}

// AddTo adds the fields of the extension to the properties of an Item, or to a provider of a Collection.
func (p Processing) AddTo(fields map[string]any) {
	if p.Facility != "" {
		fields["processing:facility"] = p.Facility
	}
	if len(p.Software) > 0 {
		fields["processing:software"] = p.Software
	}
	if p.Lineage != "" {
		fields["processing:lineage"] = p.Lineage
	}
	if !p.Time.IsZero() {
		fields["processing:datetime"] = p.Time.UTC().Format(time.RFC3339Nano)
	}
}

// Process adds to a valid Collection, as its last provider, who processed it and how. A Collection that declares any
// version of the extension says that itself and stays as it is.
func Process(c Object, p Processing) {
	declared := extensions(c["stac_extensions"])
	for _, e := range declared {
		if strings.HasPrefix(e, extensionFamily) {
			return
		}
	}
	provider := map[string]any{"name": p.Facility, "roles": []string{"processor"}}
	if p.URL != "" {
		provider["url"] = p.URL
	}
	p.AddTo(provider)
	var providers []json.RawMessage
	_ = json.Unmarshal(c["providers"], &providers)
	c["providers"] = marshal(append(providers, marshal(provider)))
	c["stac_extensions"] = marshal(append(declared, ProcessingExtension))
}

const extensionFamily = "https://stac-extensions.github.io/processing/"

// AddLinks adds links to a Collection.
func AddLinks(c Object, links ...map[string]string) {
	all := []json.RawMessage{}
	_ = json.Unmarshal(c["links"], &all)
	for _, l := range links {
		all = append(all, marshal(l))
	}
	c["links"] = marshal(all)
}
