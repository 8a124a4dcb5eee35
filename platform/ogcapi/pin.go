package ogcapi

import (
	"context"
	"encoding/json"

	"github.com/eodispatch/eodispatch/dispatch"
)

var _ dispatch.Pinner = (*Platform)(nil)

const opPin = "ogcapi.Pin"

// pinPrefix begins what a request is pinned to. The fingerprint of the description of the process follows.
const pinPrefix = "description "

// Pin pins a request to the description of its process, if the client asks for that. A process cannot be sent with a
// job, so its description is compared when the job is submitted.
func (p *Platform) Pin(ctx context.Context, t dispatch.Token, r dispatch.Request, _ *dispatch.Dimension,
	_ *dispatch.Document) (string, error) {
	if !r.MustPin() {
		return "", nil
	}
	ctx, end := p.answers.Begin(ctx)
	defer end()
	_, d, err := p.describe(ctx, t, r.Service)
	if err != nil {
		return "", err
	}
	return pinPrefix + d.fingerprint, nil
}

// checkPin returns Invalid for a request whose process is described otherwise than when the request was accepted.
func checkPin(r dispatch.Request, d *description) error {
	if r.Pin == "" || r.Pin == pinPrefix+d.fingerprint {
		return nil
	}
	return &dispatch.Error{Kind: dispatch.Invalid, Op: opPin,
		Text: "The process has changed since the request was accepted, which is pinned to the process as it was " +
			"then. Submit the request again to use the process as it is now."}
}

// fingerprintOf identifies what a description says about a process. Its links, which may name a host or a session, and
// its form do not count.
func fingerprintOf(members map[string]json.RawMessage) string {
	description := map[string]any{}
	for name, raw := range members {
		var value any
		if name == "links" || json.Unmarshal(raw, &value) != nil {
			continue
		}
		description[name] = value
	}
	text, _ := json.Marshal(description) // cannot fail: it was JSON
	return dispatch.Document{Body: text}.Hash()
}
