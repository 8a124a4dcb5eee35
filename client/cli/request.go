package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eodispatch/eodispatch/client"
	"github.com/eodispatch/eodispatch/client/wire"
)

// request is what the flags of run and upscale say.
type request struct {
	*app
	place
	parameters, options          []string
	budget                       string
	trial                        int
	area, time, format, title    string
	note                         string
	labels                       []string
	by                           string // what --time is split by
	also                         []string
	values, dimension, key, file string
	each                         []string
	zip                          bool
	tiling

	found found // the service, once it is read
}

func (r *request) flags(command *cobra.Command) {
	r.place.flags(r.app, command)
	flags := command.Flags()
	flags.StringArrayVar(&r.labels, "label", nil, "label as `KEY=VALUE`, for list --label; repeatable")
	flags.StringArrayVarP(&r.parameters, "parameter", "p", nil,
		"parameter as `NAME=VALUE`: JSON, text, or @FILE for the JSON in a file; repeatable")
	flags.StringVar(&r.area, "area", "", "`AREA` for parameters of the types bounding-box and polygon")
	flags.StringVar(&r.time, "time", "",
		"time span for parameters of the type date-interval: `FROM/TO`, a day, a month or a year; or a time for "+
			"those of the type datetime")
	flags.StringVar(&r.by, "split", "",
		"run a job for each `PART` of --time: day, week, month, quarter, year, or a number of days such as P10D")
	flags.StringVar(&r.format, "format", "",
		"format of the results: gtiff, netcdf, geojson, json, or another that the service offers; default: the "+
			"service's own")
	flags.StringVar(&r.title, "title", "", "title; default: that of the service")
	flags.StringVar(&r.note, "note", "", "note")
	flags.StringVar(&r.budget, "budget", "",
		"maximum cost of the task: an `AMOUNT` in the platform's unit, such as 50, or with its unit: \"50 credits\"")
	flags.StringArrayVar(&r.also, "also", nil,
		"equivalent `SERVICE` at another platform; each job runs where it is expected to finish first; repeatable")
	flags.IntVar(&r.trial, "trial", 0, "run only the first `N` jobs; \"eodispatch resume\" runs the rest")
	flags.StringArrayVar(&r.options, "option", nil, "job option for the platform as `NAME=VALUE`; repeatable")
	r.tiling.flags(r.app, command,
		"run a job for each tile of --area in this `GRID`, or in the cells of a GeoJSON file")
	flags.StringVar(&r.values, "values", "",
		"run a job for each value in a `FILE`: a JSON array, GeoJSON features, or one value per line")
	flags.StringArrayVar(&r.each, "each", nil,
		"run a job for each value of a parameter, as `NAME=VALUE,VALUE` or NAME=@FILE; repeatable: each combination")
	flags.BoolVar(&r.zip, "zip", false,
		"pair the values of --grid, --values, --split and --each in order, instead of combining them")
	flags.StringVar(&r.dimension, "dimension", "",
		"`PARAMETER` that takes the tiles or values; default: the one for areas")
	flags.StringVar(&r.key, "key", "",
		"Idempotency-Key: the same key and request are submitted only once within a day; default: random")
	flags.StringVarP(&r.file, "file", "f", "", "submit the request in a `FILE`, written by eodispatch request")
	command.MarkFlagsMutuallyExclusive("grid", "values")
	// fails only for unknown flags
	_ = command.RegisterFlagCompletionFunc("format",
		cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// document is a request in a file: that of a job or, with a dimension or several, that of a task.
type document struct{ wire.UpscalingTaskRequest }

// isTask reports whether the request is that of a task.
func (d document) isTask() bool { return d.Dimension != nil || len(d.Dimensions) > 0 }

// varies reports whether a parameter has different values in the jobs of a task.
func (d document) varies(parameter string) bool {
	return d.Dimension != nil && d.Dimension.Name == parameter ||
		slices.ContainsFunc(d.Dimensions, func(one wire.ParameterDimension) bool { return one.Name == parameter })
}

// build returns the request. given are the flags that were set.
func (r *request) build(ctx context.Context, c *client.Client, args []string, given *pflag.FlagSet) (document, error) {
	if err := notEmpty(given, "grid", "values", "split", "budget", "key"); err != nil {
		return document{}, err
	}
	d, err := r.describe(ctx, c, args, given)
	if err == nil {
		err = r.annotate(&d)
	}
	return d, err
}

// annotate adds the labels and the note to a request.
func (r *request) annotate(d *document) error {
	for _, text := range r.labels {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return usage("--label %q: write KEY=VALUE", text)
		}
		if d.Labels == nil {
			d.Labels = map[string]string{}
		}
		d.Labels[key] = value
	}
	d.Note = cmp.Or(r.note, d.Note)
	return nil
}

// describe returns the request without its annotations, unless they are in a file.
func (r *request) describe(ctx context.Context, c *client.Client, args []string, given *pflag.FlagSet) (document,
	error) {
	if r.file != "" {
		return r.fromFile(args, given)
	}
	if len(args) == 0 {
		return document{}, usage("name a service, or a file with -f")
	}
	if r.grid == "" && r.tiling != (tiling{}) {
		return document{}, usage("--min-area, --merge, --buffer and --order need --grid")
	}
	f, err := r.find(ctx, c, args[0])
	if err != nil {
		return document{}, err
	}
	r.found = f
	values, err := pairs("-p", r.parameters, f.typeOf)
	if err != nil {
		return document{}, err
	}
	d := document{}
	d.BaseJobRequest = wire.BaseJobRequest{Title: cmp.Or(r.title, f.title), Label: f.label, Service: f.service,
		Format: r.format}
	if d.Options, err = r.allOptions(given); err != nil {
		return d, err
	}
	dimensions, err := r.vary(ctx, c, f, values)
	switch {
	case err != nil:
		return d, err
	case len(dimensions) == 1:
		d.Dimension = &dimensions[0]
	default:
		d.Dimensions = dimensions
	}
	if r.zip && len(dimensions) < 2 {
		return d, usage("--zip needs several of --grid, --values, --split and --each")
	}
	if r.zip {
		d.Combine = "zip"
	}
	d.Parameters, err = json.Marshal(values)
	return d, errors.Join(err, r.spread(&d, f, args[0]))
}

// spread adds the services of --also to the request of a task.
func (r *request) spread(d *document, f found, name string) error {
	if len(r.also) == 0 {
		return nil
	}
	if !d.isTask() {
		return usage("--also is for tasks: it needs --grid, --values, --split or --each")
	}
	d.Service, d.Services = wire.ServiceChoice{}, []wire.ServiceChoice{f.service}
	if r.platform == "" && r.endpoint == "" {
		d.Services[0] = wire.ServiceChoice{ID: name, Platform: r.at}
	}
	for _, id := range r.also {
		d.Services = append(d.Services, wire.ServiceChoice{ID: id})
	}
	return nil
}

// allOptions returns the options of the request, with those that flags of their own name.
func (r *request) allOptions(given *pflag.FlagSet) (wire.Object, error) {
	all := slices.Clone(r.options)
	if r.budget != "" {
		b, err := budgetOption(r.budget)
		if err != nil {
			return nil, err
		}
		all = append(all, "budget="+b)
	}
	if given.Changed("trial") {
		if r.trial < 1 {
			return nil, usage("--trial %d: write how many of the jobs run first, at least 1", r.trial)
		}
		all = append(all, fmt.Sprintf("trial=%d", r.trial))
	}
	if r.grid == "" && r.values == "" && r.by == "" && len(r.each) == 0 && len(all) > len(r.options) {
		return nil, usage("--budget and --trial are for tasks: they need --grid, --values, --split or --each")
	}
	if len(all) == 0 {
		return nil, nil
	}
	values, err := pairs("--option", all, func(string) (string, error) { return "", nil })
	if err != nil {
		return nil, err
	}
	return json.Marshal(values)
}

// budgetOption returns a budget in JSON for a text such as "50" or "50 credits".
func budgetOption(text string) (string, error) {
	amount, unit, err := parseBudget(text)
	if err != nil || unit == nil {
		return fmt.Sprint(amount), err
	}
	b, err := json.Marshal(map[string]any{"amount": amount, "unit": unit[0]})
	return string(b), err
}

// parseBudget reads a text such as "50" or "50 credits". unit is nil if there is none.
func parseBudget(text string) (amount float64, unit []string, err error) {
	number, name, named := strings.Cut(strings.TrimSpace(text), " ")
	amount, err = strconv.ParseFloat(number, 64)
	if err != nil || !(amount > 0) || math.IsInf(amount, 0) {
		return 0, nil, usage("--budget %q: write an amount above 0 and, if you like, its unit: 50, or \"50 credits\"",
			text)
	}
	if named {
		unit = []string{strings.TrimSpace(name)}
	}
	return amount, unit, nil
}

// vary fills in the area and the time, and returns the dimensions of a task; none: the request is that of a job.
func (r *request) vary(ctx context.Context, c *client.Client, f found,
	values map[string]json.RawMessage) (all []wire.ParameterDimension, err error) {
	var parts *wire.ParameterDimension
	if r.by == "" {
		err = r.fillTime(f, values)
	} else {
		parts, err = r.splitTime(f, values)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case r.grid != "" || r.values != "":
		var one *wire.ParameterDimension
		if one, err = r.split(ctx, c, f, values); err == nil {
			all = append(all, *one)
		}
	case r.area != "":
		err = r.fillArea(ctx, f, values)
	}
	if err != nil {
		return nil, err
	}
	if parts != nil {
		all = append(all, *parts)
	}
	for _, text := range r.each {
		one, err := eachOf(f, text)
		if err != nil {
			return nil, usage("--each %w", err)
		}
		all = append(all, one)
	}
	return all, nil
}

// eachOf reads NAME=VALUE,VALUE or NAME=@FILE. Values in JSON, which can have commas in them, are an array.
func eachOf(f found, text string) (d wire.ParameterDimension, err error) {
	name, list, ok := strings.Cut(text, "=")
	if !ok || name == "" || list == "" {
		return d, fmt.Errorf("%q: write NAME=VALUE,VALUE or NAME=@FILE", text)
	}
	kind, err := f.typeOf(name)
	if err != nil {
		return d, fmt.Errorf("%s: %w", name, err)
	}
	d.Name = name
	if file, ok := strings.CutPrefix(list, "@"); ok {
		if d.Values, d.Names, err = readValues(file); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return d, err
	}
	if json.Unmarshal([]byte(list), &d.Values) == nil {
		return d, nil
	}
	for one := range strings.SplitSeq(list, ",") {
		value, err := valueOf(strings.TrimSpace(one), kind)
		if err != nil {
			return d, fmt.Errorf("%s: %w", name, err)
		}
		d.Values = append(d.Values, value)
	}
	return d, nil
}

// splitTime returns the dimension of the parts of --time.
func (r *request) splitTime(f found, values map[string]json.RawMessage) (*wire.ParameterDimension, error) {
	span := wholeSpan(r.time)
	if _, err := interval(span); err != nil {
		return nil, usage("--split needs --time: %w", err)
	}
	names, err := f.takes(values, "date-interval")
	if err != nil {
		return nil, usage("--time: %w", err)
	}
	if len(names) > 1 {
		return nil, usage("--split: the service has several time spans: %s. Give all but one with -p",
			strings.Join(names, ", "))
	}
	return &wire.ParameterDimension{Name: names[0], Interval: strings.Split(span, "/"), Split: r.by}, nil
}

// fromFile reads the request from a file. Only flags that do not describe a request may be given with it.
func (r *request) fromFile(args []string, given *pflag.FlagSet) (d document, err error) {
	for _, name := range []string{"parameter", "area", "time", "split", "format", "option", "also", "budget", "trial",
		"grid", "min-area", "merge", "buffer", "order", "values", "dimension", "each", "zip", "platform", "at",
		"endpoint", "namespace"} {
		if len(args) > 0 || given.Changed(name) {
			return d, usage("with -f the request is in the file: omit SERVICE and --%s", name)
		}
	}
	text, err := readFile(r.file)
	if err != nil {
		return d, usage("the request %s cannot be read: %w", r.file, err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return d, usage("%s is not a request: %w", r.file, faultOf(err))
	}
	d.Title = cmp.Or(r.title, d.Title)
	return d, nil
}

// pairs reads the texts NAME=VALUE of a flag. kind returns the type of the value with a name; "": not known.
func pairs(flag string, texts []string, kind func(name string) (string, error)) (map[string]json.RawMessage, error) {
	values := map[string]json.RawMessage{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usage("%s %q: write NAME=VALUE", flag, text)
		}
		parameter, err := kind(name)
		if err == nil {
			values[name], err = valueOf(value, parameter)
		}
		if err != nil {
			return nil, usage("%s %s: %w", flag, name, err)
		}
	}
	return values, nil
}

func namesOf(all []wire.Parameter) (names []string) {
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names
}

// valueOf reads a value: the JSON in a file, JSON, or a text. What is a text for its parameter stays one, even if it
// looks like a number.
func valueOf(text, kind string) (json.RawMessage, error) {
	if file, ok := strings.CutPrefix(text, "@"); ok {
		content, err := readFile(file)
		if err == nil && !json.Valid(content) {
			err = fmt.Errorf("%s is not JSON", file)
		}
		return content, err
	}
	switch {
	case kind == "date-interval" && strings.Contains(wholeSpan(text), "/"):
		return interval(wholeSpan(text))
	case kind == "string" && !strings.HasPrefix(text, `"`), kind == "datetime" && !strings.HasPrefix(text, `"`),
		!json.Valid([]byte(text)):
		return json.Marshal(text)
	}
	return json.RawMessage(text), nil
}

// wholeSpan returns a day, a month or a year as FROM/TO, of which TO is the first day after it. Other texts stay as
// they are.
func wholeSpan(text string) string {
	for form, next := range map[string][3]int{time.DateOnly: {0, 0, 1}, "2006-01": {0, 1, 0}, "2006": {1, 0, 0}} {
		if from, err := time.Parse(form, text); err == nil {
			return from.Format(time.DateOnly) + "/" + from.AddDate(next[0], next[1], next[2]).Format(time.DateOnly)
		}
	}
	return text
}

// interval reads FROM/TO; ".." stands for an open end.
func interval(text string) (json.RawMessage, error) {
	from, to, ok := strings.Cut(text, "/")
	if !ok || from == "" || to == "" || strings.Contains(to, "/") {
		return nil, fmt.Errorf(
			"%q is not a time span: write FROM/TO, such as 2024-06-01/2024-07-01, or a day, month or year: "+
				"2024-06-01, 2024-06, 2024", text)
	}
	for _, end := range []string{from, to} {
		if wholeSpan(end) != end && len(end) < len(time.DateOnly) {
			return nil, fmt.Errorf("%q is not a time span: write both days, such as 2024-06-01/2024-07-01; the second "+
				"is the first day after the span", text)
		}
	}
	if begin, end := momentOf(from), momentOf(to); !begin.IsZero() && !end.IsZero() && end.Before(begin) {
		return nil, fmt.Errorf("the time span %q ends before it begins: write FROM/TO with the earlier time first",
			text)
	}
	ends := []any{from, to}
	for i := range ends {
		if ends[i] == ".." {
			ends[i] = nil
		}
	}
	return json.Marshal(ends)
}

// momentOf returns the time that a text stands for; zero if it is in no usual form.
func momentOf(text string) time.Time {
	for _, form := range []string{time.DateOnly, time.RFC3339, "2006-01-02T15:04:05"} {
		if at, err := time.Parse(form, text); err == nil {
			return at
		}
	}
	return time.Time{}
}

// fillTime gives --time to the parameters for times: a time span, or what stands for one, to those that take one, and
// else a time to those for a time.
func (r *request) fillTime(f found, values map[string]json.RawMessage) error {
	if r.time == "" {
		return nil
	}
	kind, text := "date-interval", wholeSpan(r.time)
	if !strings.Contains(r.time, "/") && f.has("datetime") {
		kind = "datetime"
	}
	var value json.RawMessage
	var err error
	if kind == "datetime" {
		value, err = json.Marshal(r.time)
	} else {
		value, err = interval(text)
	}
	if err != nil {
		return usage("--time: %w", err)
	}
	names, err := f.takes(values, kind)
	if err != nil {
		return usage("--time: %w", err)
	}
	for _, name := range names {
		values[name] = value
	}
	return nil
}

// areaTypes are the types of parameters that take an area. The broker converts polygons to boxes where a service takes
// only those.
var areaTypes = []string{"bounding-box", "polygon"}

func (r *request) fillArea(ctx context.Context, f found, values map[string]json.RawMessage) error {
	area, err := r.readArea(ctx, r.area)
	if err != nil {
		return err
	}
	names, err := f.takes(values, areaTypes...)
	if err != nil {
		return usage("--area: %w", err)
	}
	for _, name := range names {
		r.hintBoxes(f, name, []json.RawMessage{area})
		values[name] = area
		if _, box, ok := boxAround(area); ok && typeIn(f, name) == "bounding-box" {
			southWest, northEast, _ := box.MinMaxXYs()
			if values[name], err = json.Marshal(map[string]float64{"west": southWest.X, "south": southWest.Y,
				"east": northEast.X, "north": northEast.Y}); err != nil {
				return err
			}
		}
	}
	return nil
}

func typeIn(f found, name string) string {
	p, _ := f.parameter(name)
	return p.Type
}

// split returns the dimension of a task: the tiles of --area, or the values of a file.
func (r *request) split(ctx context.Context, c *client.Client, f found,
	values map[string]json.RawMessage) (*wire.ParameterDimension, error) {
	d := &wire.ParameterDimension{Name: r.dimension}
	if d.Name == "" {
		names, err := f.takes(values, areaTypes...)
		if err != nil || len(names) > 1 {
			return nil, usage("name the parameter that takes the values with --dimension; the service has: %s",
				strings.Join(namesOf(f.parameters), ", "))
		}
		d.Name = names[0]
	}
	if r.values != "" {
		var err error
		if d.Values, d.Names, err = readValues(r.values); err != nil {
			return nil, usage("--values: %w", err)
		}
		if r.area != "" {
			if slices.Contains(areaTypes, typeIn(f, d.Name)) {
				return nil, usage("--values gives the areas: omit --area, or name another parameter with --dimension")
			}
			err = r.fillArea(ctx, f, values)
		}
		r.hintBoxes(f, d.Name, d.Values)
		return d, err
	}
	if r.area == "" {
		return nil, usage("--grid needs --area")
	}
	area, err := r.readArea(ctx, r.area)
	if err != nil {
		return nil, err
	}
	tiles, err := r.tiles(ctx, c, area)
	if err == nil && len(tiles.Geometries) == 0 {
		err = errors.New("the area has no tiles")
	}
	d.Values, d.Names = tiles.Geometries, tiles.IDs
	r.hintBoxes(f, d.Name, d.Values)
	return d, err
}

// hintBoxes says how much is added to areas for a parameter that takes boxes alone, which are sent in place of other
// shapes.
func (r *request) hintBoxes(f found, name string, areas []json.RawMessage) {
	if typeIn(f, name) != "bounding-box" {
		return
	}
	changed, own, sent := 0, 0., 0.
	for _, area := range areas {
		g, box, ok := boxAround(area)
		if !ok {
			continue
		}
		if own, sent = own+g.Area(), sent+box.Area(); box.Area() > 1.01*g.Area() {
			changed++
		}
	}
	switch more := math.Round(100 * (sent/own - 1)); {
	case changed == 0 || own == 0:
	case len(areas) == 1:
		r.hint("%s takes a box: the bounding box of the area is sent, which is %.0f %% larger.", name, more)
	default:
		r.hint("%s takes boxes: bounding boxes of %d of %d areas are sent, so that %.0f %% more is processed and "+
			"neighbours may overlap.", name, changed, len(areas), more)
	}
}

const mostName = 100 // characters of the name of a value

// readValues reads the values of a dimension: a JSON array, the geometries of GeoJSON features, whose ids are their
// names, or a value in each line. An id that cannot be a name is left out, since it need not be meant as one. names is
// nil if no value has one.
func readValues(file string) (values []json.RawMessage, names []string, err error) {
	text, err := readFile(file)
	if err != nil {
		return nil, nil, err
	}
	var collection struct {
		Features []struct {
			ID       json.RawMessage `json:"id"`
			Geometry json.RawMessage `json:"geometry"`
		} `json:"features"`
	}
	switch {
	case json.Unmarshal(text, &values) == nil:
	case json.Unmarshal(text, &collection) == nil && collection.Features != nil:
		for _, f := range collection.Features {
			name := ""
			if json.Unmarshal(f.ID, &name) != nil {
				name = string(f.ID) // a number
			}
			if utf8.RuneCountInString(name) > mostName || strings.ContainsFunc(name, hides) {
				name = ""
			}
			values, names = append(values, f.Geometry), append(names, name)
		}
		if !slices.ContainsFunc(names, func(name string) bool { return name != "" }) {
			names = nil
		}
	default:
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" {
				value, err := valueOf(line, "")
				if err != nil {
					return nil, nil, err
				}
				values = append(values, value)
			}
		}
	}
	if len(values) == 0 {
		return nil, nil, fmt.Errorf("%s has no values", file)
	}
	return values, names, nil
}

// hides reports whether a character is not shown or changes how others are, which the broker refuses in names. Joiners,
// which Persian and emoji need, are not.
func hides(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && r != '\u200c' && r != '\u200d'
}

func (a *app) requestCommand() *cobra.Command {
	r := &request{app: a}
	to := ""
	command := &cobra.Command{Use: "request SERVICE", GroupID: "jobs", Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.completeServices,
		Short:             "Write a request to a file, to edit and submit with run -f",
		Long: "Write a request for a service with all its parameters: with the values that you give, otherwise the " +
			"defaults, or null where you must write a value.",
		Example: "  eodispatch request ndvi_composite --area 4,50,5,51 -o request.json\n  eodispatch run -f " +
			"request.json"}
	command.RunE = func(command *cobra.Command, args []string) error {
		return a.onClient(func(ctx context.Context, c *client.Client, args []string) error {
			d, err := r.build(ctx, c, args, command.Flags())
			if err != nil {
				return err
			}
			if d.Parameters, err = withDefaults(d, r.found); err != nil {
				return err
			}
			text, err := json.MarshalIndent(d, "", "  ")
			if err != nil {
				return err
			}
			if to == "" {
				_, err = fmt.Fprintln(a.Out, string(text))
				return err
			}
			return os.WriteFile(to, append(text, '\n'), 0o666)
		})(command, args)
	}
	r.flags(command)
	command.Flags().StringVarP(&to, "to", "o", "", "file to write; default: standard output")
	return command
}

// withDefaults adds the parameters that a request does not have: their defaults, or null.
func withDefaults(d document, f found) (wire.Object, error) {
	values := map[string]json.RawMessage{}
	if err := json.Unmarshal(d.Parameters, &values); err != nil {
		return nil, err
	}
	for _, p := range f.parameters {
		_, ok := values[p.Name]
		if ok || d.varies(p.Name) || p.Optional && (len(p.Default) == 0 || string(p.Default) == "null") {
			continue
		}
		if values[p.Name] = p.Default; len(p.Default) == 0 {
			values[p.Name] = json.RawMessage("null")
		}
	}
	return json.Marshal(values)
}
