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
	var lists []string // where services are described, in each version
	for _, v := range versions {
		lists = append(lists, r.BaseURL(r.outer)+path+v.path+"/processes/"+servicesNamespace)
	}
	replaced := false
	for n := range objects(v) {
		id, isNode := n["process_id"].(string)
		namespace, _ := n["namespace"].(string)
		if isNode && slices.Contains(lists, strings.TrimSuffix(namespace, "/"+url.PathEscape(id))) {
			n["namespace"], replaced = servicesNamespace, true
		}
	}
	if !replaced {
		return nil
	}
	var err error
	members[name], err = dispatch.Encode(v)
	return err
}
