package broker

import (
	"context"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Policy returns the combination of all policies for a service; zero if there is none, or no platform for the service.
func (b *Broker) Policy(s dispatch.Service, l dispatch.Label) dispatch.Policy {
	backend, err := b.Backend(s, l)
	if err != nil {
		return dispatch.Policy{}
	}
	return b.policyAt(backend, s)
}

func (b *Broker) policyAt(backend *dispatch.Backend, s dispatch.Service) (all dispatch.Policy) {
	for _, p := range b.Policies {
		if p.Applies(backend.Name, s) {
			all = all.And(p)
		}
	}
	return all
}

// underPolicy returns a request with the defaults of the policies for its service. Forbidden if its user may not run
// the service, Invalid if the request exceeds a limit.
func (b *Broker) underPolicy(ctx context.Context, backend *dispatch.Backend, r dispatch.Request,
	d *dispatch.Dimension) (dispatch.Request, error) {
	if len(b.Policies) == 0 || r.Process != nil {
		return r, nil
	}
	if err := b.checkPolicyEntitles(ctx, backend, r); err != nil {
		return r, err
	}
	p := b.policyAt(backend, r.Service)
	if r.Format == "" {
		r.Format = p.Format
	}
	return p.WithOptions(r, d)
}

// checkPolicyEntitles returns Forbidden if a policy does not let the requesting user run the service. Processes of
// users have no policy.
func (b *Broker) checkPolicyEntitles(ctx context.Context, backend *dispatch.Backend, r dispatch.Request) error {
	if p := b.policyAt(backend, r.Service); r.Process == nil && p.Entitled != nil && !p.Entitled(ctx) {
		return &dispatch.Error{Kind: dispatch.Forbidden, Op: "dispatch.policy",
			Text: "You are not permitted to use this service. Ask the operator of this broker."}
	}
	return nil
}
