package broker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// withFormat returns a request with the format of its results. Where neither the client nor the operator names one, it
// is one of the service's record for an openEO service, which is asked for one, and otherwise left to the platform.
func (b *Broker) withFormat(r dispatch.Request) dispatch.Request {
	if r.Format == "" && r.Label == dispatch.OpenEO && r.Process == nil {
		r.Format = dispatch.UsualFormat(b.recorded(r))
	}
	return r
}

// checkFormat refuses a format that the record of a service does not name, for a platform that does not list the
// formats of the service: those that do decide by themselves. JSON is the document of the results, which every process
// of OGC API - Processes has.
func (b *Broker) checkFormat(ctx context.Context, u dispatch.UserID, r dispatch.Request) error {
	names := b.recorded(r)
	if r.Label != dispatch.OGCProcess || r.Format == "" || len(names) == 0 ||
		slices.Contains(append(names, "json"), dispatch.FormatName(r.Format)) {
		return nil
	}
	listed, err := b.Formats(ctx, u, r.Service, r.Label)
	if err != nil || slices.ContainsFunc(listed,
		func(f dispatch.OutputFormat) bool { return dispatch.FormatName(f.Name) != "json" }) {
		return nil
	}
	return dispatch.InvalidBody("dispatch.checkFormat",
		fmt.Sprintf("The service does not offer the output format %q. It offers: %s.", r.Format,
			strings.Join(names, ", ")), "format")
}

// recorded returns the formats that the catalogue's record of a request's service names; none if there is no record, or
// if it names one that is not commonly known: records are written by people.
func (b *Broker) recorded(r dispatch.Request) (names []string) {
	if b.Recorded == nil {
		return nil
	}
	for _, name := range b.Recorded(r.Label, r.Service) {
		name = dispatch.FormatName(name)
		if !dispatch.IsCommon(name) {
			return nil
		}
		names = append(names, name)
	}
	return names
}
