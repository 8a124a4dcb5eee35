package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// listedPlacements returns the platforms that offer the service which s names by its id. The member platform of s, or
// the label l of the request, selects among them. If none is left, it records a fault at a place in the body.
func (a *api) listedPlacements(f *openapi.Faults, s wire.ServiceChoice, l dispatch.Label,
	at ...any) []catalogue.Placement {
	listed, ok := a.Services.Find(s.ID)
	if !ok {
		f.Add("value_error", "The catalogue has no service with this id. It may have been removed since",
			append(slices.Clone(at), "id")...)
		return nil
	}
	placements := listed.Placements()
	if s.Platform != "" {
		placements = slices.DeleteFunc(placements, func(h catalogue.Placement) bool { return h.Platform != s.Platform })
	}
	if len(placements) == 0 {
		f.Add("value_error", fmt.Sprintf("The service %s is not offered there. It is at %s", s.ID,
			strings.Join(platformNames(listed), ", ")), append(slices.Clone(at), "platform")...)
		return nil
	}
	chosen := slices.DeleteFunc(slices.Clone(placements), func(h catalogue.Placement) bool {
		return l != "" && h.Label != l
	})
	if len(chosen) == 0 {
		f.Add("value_error", fmt.Sprintf("Input should be '%s', the protocol of the service %s", placements[0].Label,
			s.ID), "label")
	}
	return chosen
}

func platformNames(s catalogue.Service) (names []string) {
	for _, h := range s.Placements() {
		names = append(names, h.Platform)
	}
	return names
}

// placementsOf returns where the service of a request is if the request leaves that open: several platforms offer it,
// and none is named. Faults are for those who read the service.
func (a *api) placementsOf(given wire.BaseJobRequest) []catalogue.Placement {
	if !isReference(given.Service) {
		return nil
	}
	placements := a.listedPlacements(&openapi.Faults{}, given.Service, label(&openapi.Faults{}, given.Label,
		given.Service))
	if len(placements) < 2 {
		return nil
	}
	return placements
}

// preference orders the states of platforms by how soon a job is expected to run there.
var preference = []dispatch.State{dispatch.StateOK, dispatch.StateUnknown, dispatch.StateBusy,
	dispatch.StateUnreachable, dispatch.StateSignInRequired, dispatch.StateMisconfigured, dispatch.StateForbidden}

// atOnePlacement returns a request for the placement where it is expected to run soonest: the first, unless the
// platform of another one is in a better state. Without placements it returns the request unchanged.
func (a *api) atOnePlacement(ctx context.Context, r dispatch.Request,
	placements []catalogue.Placement) dispatch.Request {
	if len(placements) == 0 {
		return r
	}
	states, err := a.platformStates(ctx)
	if err != nil { // the database does not answer, and so accepts no request either
		return r
	}
	best := slices.MinFunc(placements, func(x, y catalogue.Placement) int {
		return cmp.Compare(slices.Index(preference, dispatch.State(states[x.Platform])), slices.Index(preference,
			dispatch.State(states[y.Platform])))
	})
	r.Label, r.Service = best.Label, best.Service
	return r
}

// atPlacements returns a request for a task at all of the placements. With a budget it is one for a single placement,
// because platforms charge in units of their own.
func (a *api) atPlacements(ctx context.Context, r dispatch.Request, placements []catalogue.Placement) dispatch.Request {
	budgeted := r.Asked().Budget != dispatch.Budget{}
	for _, h := range placements {
		budgeted = budgeted || a.Broker.Policy(h.Service, h.Label).Budget != dispatch.Budget{}
	}
	if budgeted {
		return a.atOnePlacement(ctx, r, placements)
	}
	for _, h := range placements {
		r.Placements = append(r.Placements, dispatch.Placement{Label: h.Label, Service: h.Service})
	}
	return r
}
