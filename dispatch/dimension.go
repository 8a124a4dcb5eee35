package dispatch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"
	"unicode/utf8"
)

// Dimension is a parameter that has a different value in each job of a task. With others beside it, each job has one
// value of each.
type Dimension struct {
	Name   string            `json:"name"`
	Values []json.RawMessage `json:"values,omitempty"`

	// Names are those of the values for people, such as the ids of the cells of a grid, one for each value, "" for
	// none; nil: no value has a name.
	Names []string `json:"names,omitempty"`

	// With are further dimensions. Faults of a request are placed in its list of dimensions unless this is nil, and in
	// its single dimension then.
	With []Dimension `json:"-"`

	// Zipped: job n has the n-th value of every dimension; all have the same number of values. Otherwise there is a job
	// for each combination of values; those of the last dimension follow each other first.
	Zipped bool `json:"-"`
}

// Argument is a parameter and its value.
type Argument struct {
	Name  string
	Value json.RawMessage
}

// All returns d and the dimensions beside it; none of nil.
func (d *Dimension) All() []Dimension {
	if d == nil {
		return nil
	}
	return append([]Dimension{{Name: d.Name, Values: d.Values, Names: d.Names}}, d.With...)
}

// Varies reports whether a parameter is one of the dimensions.
func (d *Dimension) Varies(parameter string) bool {
	return slices.ContainsFunc(d.All(), func(one Dimension) bool { return one.Name == parameter })
}

// Place returns where dimension i of d.All is in the body of a request, followed by the steps below it.
func (d *Dimension) Place(i int, below ...any) []any {
	at := []any{"dimension"}
	if d.With != nil {
		at = []any{"dimensions", i}
	}
	return append(at, below...)
}

// Jobs returns the number of jobs of a task with these dimensions. It is math.MaxInt if there are more than that.
func (d *Dimension) Jobs() int {
	if d.Zipped {
		return len(d.Values)
	}
	n := 1
	for _, one := range d.All() {
		if len(one.Values) > 0 && n > math.MaxInt/len(one.Values) {
			return math.MaxInt
		}
		n *= len(one.Values)
	}
	return n
}

// rendered returns the total size in bytes of what all jobs add to the parameters of their task. It computes none of
// them.
func (d *Dimension) rendered() (total int) {
	n := d.Jobs()
	for i, one := range d.All() {
		size := 0
		for _, v := range one.Values {
			size += len(v)
		}
		for _, name := range one.Names {
			size += len(name)
		}
		if !d.Zipped {
			size *= n / max(1, len(one.Values))
		}
		if total += size; i > 0 {
			total += n * len(one.separator())
		}
	}
	return total
}

// separator precedes the value of a dimension after the first in what a job adds to the parameters of its task.
func (d *Dimension) separator() []byte {
	name, _ := json.Marshal(d.Name) // a string has no fault
	return slices.Concat([]byte(","), name, []byte(":"))
}

// Each returns what each job adds to the parameters of its task, after the name of the first dimension: that one's
// value, followed by the members of the others. With one dimension it is the value. It also returns the names of the
// job's values, see [Job.Names]; nil if no value has one.
func (d *Dimension) Each() iter.Seq2[json.RawMessage, []string] {
	return func(yield func(json.RawMessage, []string) bool) {
		all := d.All()
		for i := range d.Jobs() {
			if value, names := d.jobAt(i, all); !yield(value, names) {
				return
			}
		}
	}
}

// jobAt returns what Each returns of job i. all are the dimensions.
func (d *Dimension) jobAt(i int, all []Dimension) (value json.RawMessage, names []string) {
	inRow := d.Jobs() // jobs in a row with the same value
	for k, one := range all {
		at := i
		if !d.Zipped {
			inRow /= len(one.Values)
			at = i / inRow % len(one.Values)
		}
		if k == 0 {
			value = one.Values[at]
		} else {
			value = slices.Concat(value, one.separator(), one.Values[at])
		}
		if names == nil && one.Names != nil {
			names = make([]string, len(all))
		}
		if one.Names != nil {
			names[k] = one.Names[at]
		}
	}
	return value, names
}

// Sample returns the values of all dimensions, from which the area of a job can be estimated without combining them.
func (d *Dimension) Sample() (values []json.RawMessage) {
	for _, one := range d.All() {
		values = append(values, one.Values...)
	}
	return values
}

// Arguments returns the value that each dimension has in one of the task's jobs, in the order of the request. value is
// what is stored of the job, see [Record].Value; nil: none.
func (t Task) Arguments(value json.RawMessage) []Argument {
	if json.Valid(value) {
		return []Argument{{t.Dimension, value}}
	}
	return argumentsFrom(t.Dimension, slices.Concat([]byte("{"), (&Dimension{Name: t.Dimension}).separator()[1:], value,
		[]byte("}")))
}

// ValueOf returns what is stored of one of the task's jobs, from its request; nil if it has no value.
func (t Task) ValueOf(r Request) json.RawMessage {
	var value json.RawMessage
	for i, a := range argumentsFrom(t.Dimension, r.Parameters) {
		if i == 0 {
			value = a.Value
			continue
		}
		value = slices.Concat(value, (&Dimension{Name: a.Name}).separator(), a.Value)
	}
	return value
}

// argumentsFrom returns the members of an object that begin with that of a name; nil if it is no object.
func argumentsFrom(name string, object []byte) (all []Argument) {
	d := json.NewDecoder(bytes.NewReader(object))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil
	}
	for d.More() {
		token, err := d.Token()
		member, ok := token.(string)
		var value json.RawMessage
		if err != nil || !ok || d.Decode(&value) != nil {
			return nil
		}
		if all != nil || member == name {
			all = append(all, Argument{member, value})
		}
	}
	return all
}

// CheckDimensions returns Invalid for faults of a task that can be found without its service. [Checker] checks the task
// against the description of that.
func CheckDimensions(r Request, d *Dimension) error {
	var shared map[string]json.RawMessage
	if err := json.Unmarshal(r.Parameters, &shared); err != nil {
		return InvalidBody("dispatch.AcceptTask", "The parameters must be a JSON object.", "parameters")
	}
	used := map[string]bool{}
	for i, one := range d.All() {
		_, twice := shared[one.Name]
		text, at := "", "values"
		switch {
		case len(one.Values) == 0:
			text = "There are no values."
		case twice:
			text, at = fmt.Sprintf("%q is also among the parameters. Give it in one place.", Shortened(one.Name)),
				"name"
		case used[one.Name]:
			text, at = fmt.Sprintf("%q is also another dimension. Give each parameter once.", Shortened(one.Name)),
				"name"
		case d.Zipped && len(one.Values) != len(d.Values):
			text = fmt.Sprintf("The dimension has %d values, but the first has %d. Zipped dimensions must have the "+
				"same number of values.", len(one.Values), len(d.Values))
		case one.Names != nil && len(one.Names) != len(one.Values):
			text, at = fmt.Sprintf("The dimension has %d values and %d names. Give a name for each value, "+
				"\"\" for none.", len(one.Values), len(one.Names)), "names"
		}
		if text != "" {
			return InvalidBody("dispatch.AcceptTask", text, d.Place(i, at)...)
		}
		for k, name := range one.Names {
			if utf8.RuneCountInString(name) > mostName || !shownInFull(name) {
				return InvalidBody("dispatch.AcceptTask",
					fmt.Sprintf("A name of a value is one line of at most %d characters, none of them invisible.",
						mostName), d.Place(i, "names", k)...)
			}
		}
		used[one.Name] = true
	}
	return checkValues(r, d)
}

// mostName bounds the name of a value, in characters. It is a part of the title of jobs.
const mostName = 100

// checkValues returns Invalid if values are no JSON, or if the requests of all jobs would be too large.
func checkValues(r Request, d *Dimension) error {
	if n := d.Jobs(); n > maxRendered || rendered(r, d) > maxRendered {
		return InvalidBody("dispatch.AcceptTask",
			fmt.Sprintf("Parameters and values have more than %d MiB, counting the parameters once for each value. "+
				"Split the task.", maxRendered>>20), d.Place(0, "values")...)
	}
	for k, one := range d.All() {
		for i, v := range one.Values {
			if !json.Valid(v) {
				return InvalidBody("dispatch.AcceptTask", "The value is not JSON.", d.Place(k, "values", i)...)
			}
		}
	}
	return nil
}

// maxRendered is the largest total size of the requests of a task's jobs, in bytes. It is limited because the task's
// owner can get all of them at once.
const maxRendered = 64 << 20

// rendered returns the total size in bytes of the requests of a task's jobs.
func rendered(r Request, d *Dimension) int {
	n := d.Jobs()
	shared := len(Task{Request: r}.titleOf(Job{
		Identity: Identity{Number: n}})) + len(r.Parameters) + len(r.Options) + len(d.Name)
	return shared*n + d.rendered()
}
