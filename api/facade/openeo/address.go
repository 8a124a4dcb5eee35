package openeo

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// replaceAddresses changes the process graphs in a member: where a node calls a service by the address at which this
// broker describes it, it gets the namespace of services. Clients that take a process by the URL of its definition call
// services so.
func (r *request) replaceAddresses(members map[string]json.RawMessage, name string) error {
	var v any
	text := members[name]
	if !mayCallServices(text) || !mayCallURLs(text) || decodeNumbers(text, &v) != nil {
		return nil // what cannot be decoded is refused where it is read
	}
	a := addressing{}
	for _, v := range versions {
		a.lists = append(a.lists, r.BaseURL(r.outer)+path+v.path+"/processes/"+servicesNamespace)
	}
	if a.replace(v); !a.replaced {
		return nil
	}
	var err error
	members[name], err = dispatch.Encode(v)
	return err
}

// addressing replaces the addresses of services, which are at or below lists, one for each version.
type addressing struct {
	lists    []string
	replaced bool
}

func (a *addressing) replace(v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			a.replace(item)
		}
	case map[string]any:
		id, isNode := v["process_id"].(string)
		namespace, _ := v["namespace"].(string)
		if isNode && slices.Contains(a.lists, strings.TrimSuffix(namespace, "/"+url.PathEscape(id))) {
			v["namespace"], a.replaced = servicesNamespace, true
		}
		for _, member := range v {
			a.replace(member)
		}
	}
}
