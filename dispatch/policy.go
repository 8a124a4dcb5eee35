package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"
)

// Policy holds an operator's defaults and limits of requests for some services. If several policies apply to a service,
// all their limits hold, and the first default of each option counts.
type Policy struct {
	// Applies reports whether the policy is about a service at a platform. Services are compared as requests name them.
	Applies func(platform string, s Service) bool

	Options map[string]json.RawMessage // of the job, unless the client gives them
	// longest one that requests may set, and the one of requests that set none; 0: any
	MaxDuration time.Duration
	Budget      Budget                     // of tasks that have none; zero: none
	Format      string                     // of the results if the client names none; "": none
	Entitled    func(context.Context) bool // reports whether the user of a request may run the services; nil: everyone may
}

// Policy returns the combination of all policies for a service; zero if there is none, or no platform for the service.
func (b *Broker) Policy(s Service, l Label) Policy {
	backend, err := b.Backend(s, l)
	if err != nil {
		return Policy{}
	}
	return b.policyAt(backend, s)
}

func (b *Broker) policyAt(backend *Backend, s Service) (all Policy) {
	for _, p := range b.Policies {
		if p.Applies(backend.Name, s) {
			all = all.and(p)
		}
	}
	return all
}

// and returns the combination of two policies, of which the defaults of p count first.
func (p Policy) and(q Policy) Policy {
	options := maps.Clone(q.Options)
	if options == nil {
		options = p.Options
	} else {
		maps.Copy(options, p.Options)
	}
	p.Options = options
	if p.MaxDuration == 0 || q.MaxDuration > 0 && q.MaxDuration < p.MaxDuration {
		p.MaxDuration = q.MaxDuration
	}
	if p.Budget == (Budget{}) {
		p.Budget = q.Budget
	}
	if p.Format == "" {
		p.Format = q.Format
	}
	if first, second := p.Entitled, q.Entitled; first == nil {
		p.Entitled = second
	} else if second != nil {
		p.Entitled = func(ctx context.Context) bool { return first(ctx) && second(ctx) }
	}
	return p
}

// underPolicy returns a request with the defaults of the policies for its service. Forbidden if its user may not run
// the service, Invalid if the request exceeds a limit.
func (b *Broker) underPolicy(ctx context.Context, backend *Backend, r Request, d *Dimension) (Request, error) {
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
	return p.withOptions(r, d)
}

// checkPolicyEntitles returns Forbidden if a policy does not let the requesting user run the service. Processes of
// users have no policy.
func (b *Broker) checkPolicyEntitles(ctx context.Context, backend *Backend, r Request) error {
	if p := b.policyAt(backend, r.Service); r.Process == nil && p.Entitled != nil && !p.Entitled(ctx) {
		return &Error{Kind: Forbidden, Op: "dispatch.policy",
			Text: "Your sign-in does not entitle you to use this service. Ask the operator of this broker."}
	}
	return nil
}

// syncUnderPolicy is underPolicy for a synchronous run, whose platform is checked later.
func (b *Broker) syncUnderPolicy(ctx context.Context, r Request) (Request, error) {
	backend, err := b.Backend(r.Service, r.Label)
	if err != nil {
		return r, err
	}
	r, err = b.underPolicy(ctx, backend, r, nil)
	return b.withFormat(r), err
}

// withOptions returns a request with the options that it has or that the policy gives it.
func (p Policy) withOptions(r Request, d *Dimension) (Request, error) {
	given := r.options()
	if given == nil && len(r.Options) > 0 && strings.TrimSpace(string(r.Options)) != "null" {
		return r, InvalidBody("dispatch.policy", "The options must be a JSON object.", "options")
	}
	options := maps.Clone(given)
	if options == nil {
		options = map[string]json.RawMessage{}
	}
	for name, value := range p.Options {
		if _, has := options[name]; !has && (d != nil || !ofTasks(name)) {
			options[name] = value
		}
	}
	if asked := r.MaxDuration(); p.MaxDuration > 0 && asked > p.MaxDuration {
		return r, InvalidBody("dispatch.policy", fmt.Sprintf("Jobs of this service may run for %d seconds.",
			p.MaxDuration/time.Second), "options", optionMaxDuration)
	} else if p.MaxDuration > 0 && asked == 0 {
		options[optionMaxDuration] = json.RawMessage(fmt.Sprint(int64(p.MaxDuration / time.Second)))
	}
	if _, has := options[optionBudget]; !has && d != nil && p.Budget != (Budget{}) {
		options[optionBudget] = p.Budget.option()
	}
	if len(options) == len(given) &&
		maps.EqualFunc(options, given, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
		return r, nil
	}
	text, err := Encode(options)
	r.Options = text
	return r, err
}

// ofTasks reports whether an option is one of tasks only.
func ofTasks(option string) bool { return option == optionBudget || option == optionTrial }
