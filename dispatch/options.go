package dispatch

import (
	"encoding/json"
	"fmt"
	"time"
)

// Options are the options of a request that the broker evaluates. All others are passed to the platform.
type Options struct {
	Validate    *bool         // false: submit without checking the parameters against the service's schemas
	Pin         *bool         // run with the definition of the service at the time of acceptance, see [Pinner]
	MaxDuration time.Duration // how long a job may run once it has started; 0: no limit
	Retries     int           // how often a job is retried by itself, see Job.Retries

	// Of tasks only: their jobs do not have them.
	Budget Budget // what the jobs may cost; zero: no limit
	Trial  int    // how many of the first jobs run before the others wait for their owner; 0: all run
}

// The names of these options.
const (
	optionValidate    = "validate"
	OptionPin         = "pin"
	optionMaxDuration = "max_duration" // in seconds
	optionRetries     = "retries"
	OptionBudget      = "budget" // see [ParseBudget]
	optionTrial       = "trial"
)

const (
	MostRetries   = 10 // how often a job is retried by itself at most
	mostTrial     = 1_000_000
	mostSeconds   = 1_000_000_000
	oneOfTheBools = "true or false"
)

// ParseOptions reads the options of r. The error is Invalid, and the options are complete without the invalid one.
func (r Request) ParseOptions() (o Options, err error) {
	members, err := r.options()
	if err != nil {
		return o, err
	}
	whole := func(most int, into *int) func(json.RawMessage) bool {
		return func(text json.RawMessage) bool {
			var n int
			valid := json.Unmarshal(text, &n) == nil && n >= 0 && n <= most
			if valid {
				*into = n
			}
			return valid
		}
	}
	var seconds int
	for _, option := range []struct {
		name, form string
		parse      func(json.RawMessage) bool
	}{
		{optionValidate, oneOfTheBools, func(v json.RawMessage) bool { return json.Unmarshal(v, &o.Validate) == nil }},
		{OptionPin, oneOfTheBools, func(v json.RawMessage) bool { return json.Unmarshal(v, &o.Pin) == nil }},
		{optionMaxDuration, "a whole number of seconds", whole(mostSeconds, &seconds)},
		{optionRetries, fmt.Sprintf("a whole number, %d at most", MostRetries), whole(MostRetries, &o.Retries)},
		{optionTrial, fmt.Sprintf("a whole number, %d at most", mostTrial), whole(mostTrial, &o.Trial)},
		{OptionBudget, "a number above 0, or an object with such an amount and a unit",
			func(v json.RawMessage) (ok bool) {
				o.Budget, ok = ParseBudget(v)
				return ok
			}},
	} {
		text := members[option.name]
		if len(text) > 0 && string(text) != "null" && !option.parse(text) && err == nil {
			err = InvalidBody("dispatch.Options", option.name+" is "+option.form+".", "options", option.name)
		}
	}
	o.MaxDuration = time.Duration(seconds) * time.Second
	return o, err
}

// Asked returns the options of a request that was accepted, so that they are valid.
func (r Request) Asked() Options {
	o, _ := r.ParseOptions()
	return o
}

// Checked reports whether the parameters of r are to be checked. They are, unless the client set the option validate to
// false.
func (r Request) Checked() bool {
	v := r.Asked().Validate
	return v == nil || *v
}

// MustPin reports whether the client wants r to be pinned. It is refused if that cannot be.
func (r Request) MustPin() bool {
	pin := r.Asked().Pin
	return pin != nil && *pin
}

// MayPin reports whether r is pinned if that does not change what its platform is sent: requests for tasks are, so that
// all jobs of a task run the same definition, unless the client set the option pin to false.
func (r Request) MayPin(d *Dimension) bool {
	pin := r.Asked().Pin
	return d != nil && (pin == nil || *pin)
}

// options returns the members of the options, Invalid if they are no object.
func (r Request) options() (members map[string]json.RawMessage, err error) {
	if len(r.Options) == 0 {
		return nil, nil
	}
	if json.Unmarshal(r.Options, &members) != nil {
		return nil, InvalidBody("dispatch.Options", "The options must be a JSON object.", "options")
	}
	return members, nil
}

// PlatformOptions returns the options of r that are passed to the platform; nil: none.
func (r Request) PlatformOptions() json.RawMessage {
	return r.OptionsWithout(optionValidate, optionMaxDuration, optionRetries, OptionPin)
}

// OfJobs returns r with the options that the jobs of a task have. Without a dimension, r is the request of a single
// job.
func (r Request) OfJobs(d *Dimension) Request {
	if d != nil {
		r.Options = r.OptionsWithout(OptionBudget, optionTrial)
	}
	return r
}

// OptionsWithout returns the options in JSON, without some of them.
func (r Request) OptionsWithout(names ...string) json.RawMessage {
	members, err := r.options()
	given := len(members)
	for _, name := range names {
		delete(members, name)
	}
	switch {
	case err != nil, len(members) == given:
		return r.Options
	case len(members) == 0:
		return nil
	}
	rest, err := json.Marshal(members)
	if err != nil {
		return r.Options
	}
	return rest
}
