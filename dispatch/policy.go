package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
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
	Budget      Budget // of tasks that have none; zero: none
	Format      string // of the results if the client names none; "": none
	// reports whether the user of a request may run the services; nil: everyone may
	Entitled func(context.Context) bool
}

// And returns the combination of two policies. The defaults of p take precedence.
func (p Policy) And(q Policy) Policy {
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

// WithOptions returns a request with the options that it has or that the policy gives it.
func (p Policy) WithOptions(r Request, d *Dimension) (Request, error) {
	given, err := r.options()
	if err != nil {
		return r, err
	}
	options := maps.Clone(given)
	if options == nil {
		options = map[string]json.RawMessage{}
	}
	for name, value := range p.Options {
		if _, given := options[name]; !given && (d != nil || name != OptionBudget && name != optionTrial) {
			options[name] = value
		}
	}
	if asked := r.Asked().MaxDuration; p.MaxDuration > 0 && asked > p.MaxDuration {
		return r, InvalidBody("dispatch.policy", fmt.Sprintf("Jobs of this service may run for %d seconds.",
			p.MaxDuration/time.Second), "options", optionMaxDuration)
	} else if p.MaxDuration > 0 && asked == 0 {
		options[optionMaxDuration] = json.RawMessage(fmt.Sprint(int64(p.MaxDuration / time.Second)))
	}
	if _, given := options[OptionBudget]; !given && d != nil && p.Budget != (Budget{}) {
		options[OptionBudget] = p.Budget.option()
	}
	if len(options) == len(given) &&
		maps.EqualFunc(options, given, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
		return r, nil
	}
	text, err := Encode(options)
	r.Options = text
	return r, err
}
