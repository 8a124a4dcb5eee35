package openeo

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/api/facade"
	"github.com/eodispatch/eodispatch/dispatch"
)

// ownOption begins the names of the job options that the broker evaluates. Platforms do not get them.
const ownOption = "eodispatch:"

// The job options that are options of the broker's request, under their names without the prefix; and the labels of the
// batch job.
const (
	optionDuration = ownOption + "max_duration"
	optionPin      = ownOption + "pin"
	optionRetries  = ownOption + "retries"
	optionLabels   = ownOption + "labels"
)

// jobOption is a job option of the broker.
type jobOption struct {
	name, description string
	schema            map[string]any
	usual             any                        // nil: none
	fits              func(json.RawMessage) bool // nil: it is checked where it is used
	passed            bool                       // it is an option of the broker's request
}

var jobOptions = []jobOption{
	{name: optionGrid, description: "Splits the batch job into one for each tile of its area, and shows them as one.",
		schema: map[string]any{"type": "string", "enum": facade.GridNames()}},
	{name: optionParameter, description: "The argument of the process graph that has the area.",
		schema: map[string]any{"type": "string"}, usual: usualParameter},
	{name: optionDuration,
		description: "Seconds that the batch job may take at its platform, from its start. It is canceled after that.",
		schema:      map[string]any{"type": "integer", "minimum": 1, "maximum": int(longestJob.Seconds())},
		fits:        isDuration, passed: true},
	{name: optionRetries, description: "How often a failed job is retried by itself, if another attempt may succeed.",
		schema: map[string]any{"type": "integer", "minimum": 0, "maximum": dispatch.MostRetries}, fits: isRetries,
		passed: true},
	{name: optionPin,
		description: "Runs the service that the batch job calls with its definition at the time of the start. The " +
			"start is refused if the platform cannot do that.",
		schema: map[string]any{"type": "boolean"}, usual: false, fits: isFlag, passed: true},
	{name: optionLabels,
		description: "Labels by which the batch job is found in the other interfaces and on the page: texts by their " +
			"keys.",
		schema: map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string",
			"maxLength": dispatch.LongestLabel}, "maxProperties": dispatch.MostLabels}},
}

func isFlag(v json.RawMessage) bool { return string(v) == "true" || string(v) == "false" }

func isRetries(v json.RawMessage) bool {
	var n int
	return json.Unmarshal(v, &n) == nil && n >= 0 && n <= dispatch.MostRetries
}

// jobParameters are the broker's own job options, in the form of the processing parameters extension.
func jobParameters() (all []json.RawMessage) {
	for _, o := range jobOptions {
		shown := map[string]any{"name": o.name, "description": o.description, "schema": o.schema, "optional": true}
		if o.usual != nil {
			shown["default"] = o.usual
		}
		text, err := dispatch.Encode(shown)
		if err != nil {
			panic(err) // strings and numbers
		}
		all = append(all, text)
	}
	return all
}

// gatherOptions moves the broker's options among the members of a batch job to its job options: the processing
// parameters extension has options among the members, so editors send them there.
func gatherOptions(members map[string]json.RawMessage) (err error) {
	var options map[string]json.RawMessage
	if v := members["job_options"]; v != nil && (json.Unmarshal(v, &options) != nil || options == nil) {
		return nil // it is refused where members are checked
	}
	gathered := map[string]json.RawMessage{}
	for name, v := range members {
		if brokerReads(name) {
			gathered[name] = v
			delete(members, name)
		}
	}
	if len(gathered) == 0 {
		return nil
	}
	maps.Copy(gathered, options)
	members["job_options"], err = dispatch.Encode(gathered)
	return err
}

// brokerReads reports whether an option is one of the broker's own, or names a platform.
func brokerReads(option string) bool {
	return strings.HasPrefix(option, ownOption) || slices.Contains(platformOptions, option)
}

// change applies changes to the members of a batch job. The broker's options among the changes replace those
// that are stored among the job options.
func change(members, changes map[string]json.RawMessage) (err error) {
	if options := optionsOf(members); len(options) > 0 {
		maps.DeleteFunc(options, func(name string, _ json.RawMessage) bool {
			return brokerReads(name) && changes[name] != nil
		})
		if members["job_options"], err = dispatch.Encode(options); err != nil {
			return err
		}
	}
	maps.Copy(members, changes)
	maps.DeleteFunc(members, func(_ string, v json.RawMessage) bool { return isNull(v) })
	return gatherOptions(members)
}

// optionsOf returns the job options of a batch job.
func optionsOf(members map[string]json.RawMessage) map[string]json.RawMessage {
	options := map[string]json.RawMessage{}
	_ = json.Unmarshal(members["job_options"], &options)
	return options
}

// given returns the job options of a batch job without those that are null.
func given(members map[string]json.RawMessage) map[string]json.RawMessage {
	options := optionsOf(members)
	maps.DeleteFunc(options, func(_ string, v json.RawMessage) bool { return isNull(v) })
	return options
}

// checkOptions refuses values of the broker's job options that have the wrong form, and options that are named as the
// broker's own and are none, so that a mistyped name does not go unnoticed.
func checkOptions(members map[string]json.RawMessage) error {
	for _, name := range ownOptions(members) {
		if name != platformOptions[0] && !slices.ContainsFunc(jobOptions,
			func(o jobOption) bool { return o.name == name }) {
			known := []string{platformOptions[0]}
			for _, o := range jobOptions {
				known = append(known, o.name)
			}
			return badOption("There is no job option " + quoted(name) + ". Those of this service are " +
				strings.Join(known, ", ") + ".")
		}
	}
	options := given(members)
	for _, o := range jobOptions {
		if v := options[o.name]; v != nil && o.fits != nil && !o.fits(v) {
			schema, err := dispatch.Encode(o.schema)
			if err != nil {
				return err
			}
			return badOption(fmt.Sprintf("The job option %s has a value that its schema does not allow: %s.", o.name,
				schema))
		}
	}
	labels, err := labelsIn(members)
	if err != nil {
		return err
	}
	if err := labels.Check(); err != nil {
		return badOption("The job option " + optionLabels + ": " + dispatch.TextFor(err))
	}
	return nil
}

// checkPlatform refuses a job option that names another platform than the one which the batch job is for.
func checkPlatform(b *dispatch.Backend, members map[string]json.RawMessage) error {
	v := given(members)[platformOptions[0]]
	if v == nil {
		return nil
	}
	var name string
	if json.Unmarshal(v, &name) != nil || name != "" && name != b.Name {
		return badOption("The job option " + platformOptions[0] + " must name the platform of this batch " +
			"job, " + b.Name + ". To use another one, create the batch job at the back-end of all platforms.")
	}
	return nil
}

func badOption(text string) error {
	return refused(http.StatusBadRequest, "ProcessParameterInvalid", text)
}

// labelsIn returns the labels of a batch job.
func labelsIn(members map[string]json.RawMessage) (a dispatch.Annotations, err error) {
	v := given(members)[optionLabels]
	if v != nil && json.Unmarshal(v, &a.Labels) != nil {
		return a, badOption("The job option " + optionLabels + " must be an object whose members are texts.")
	}
	return a, nil
}

// optionsIn returns the job options for the platform, and those for the broker that are part of its request.
func optionsIn(members map[string]json.RawMessage) (options, own map[string]json.RawMessage) {
	options, own = optionsOf(members), map[string]json.RawMessage{}
	set := given(members)
	for _, o := range jobOptions {
		if v := set[o.name]; o.passed && v != nil {
			own[strings.TrimPrefix(o.name, ownOption)] = v
		}
	}
	for _, name := range ownOptions(members) {
		delete(options, name)
	}
	return options, own
}

// ownOptions returns the names of the job options that are for the broker, sorted.
func ownOptions(members map[string]json.RawMessage) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(optionsOf(members))) {
		if strings.HasPrefix(name, ownOption) {
			names = append(names, name)
		}
	}
	return names
}

// checkPin refuses to pin a process graph that calls processes which are read when it runs. All others of a graph are
// part of it.
func checkPin(members map[string]json.RawMessage, nodes []graphNode) error {
	if string(given(members)[optionPin]) != "true" {
		return nil
	}
	for _, n := range nodes {
		if !hasPredefined(n.namespace) && n.namespace != userNamespace && n.namespace != servicesNamespace {
			return badOption("The job option " + optionPin + ": the platform reads the process " + quoted(n.process) +
				" of the namespace " + quoted(n.namespace) +
				" when the batch job starts. Only services of the namespace " + servicesNamespace + " can be pinned.")
		}
	}
	return nil
}
