package parameters

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// compiled is a schema that several goroutines can check values against.
type compiled struct {
	doc any       // draft-07, bounded and with keywords of the right form
	own sync.Pool // of *validator
}

// validator is a compiled schema that counts the cost of its checks. It is for one goroutine at a time.
type validator struct {
	schema *jsonschema.Schema
	meter  *bounds.Meter
}

const (
	schemaURL  = "https://schema.invalid/parameter" // never fetched; references need an absolute base URL
	costWord   = "x-cost"
	valuesWord = "x-values"
	valueWord  = "x-value"
)

// compile returns the compiled schema; nil if nothing can be checked. faults describes the unsupported parts of the
// schema; the rest is checked.
func (r *Reader) compile(raw json.RawMessage) (*compiled, []string) {
	d := r.document(raw)
	if !d.compiled {
		d.check, d.faults = r.compileOnce(d)
		d.compiled = true
	}
	return d.check, d.faults
}

func (r *Reader) compileOnce(d *document) (*compiled, []string) {
	if d.fault != nil {
		return nil, []string{"it cannot be read: " + d.fault.Error()}
	}
	a := &adapter{doc: d, targets: map[*node]string{}, definitions: map[string]any{}}
	doc := map[string]any{"allOf": []any{a.adapt(d.root)}, "definitions": a.definitions}
	if err := r.steps.Err(); err != nil {
		return nil, append(a.faults, "it is too complex: "+err.Error())
	}
	if err := a.checkVisits(doc); err != nil {
		return nil, append(a.faults, "its references are circular, or it has "+err.Error())
	}
	c := &compiled{doc: doc}
	v, err := c.validator()
	if err != nil {
		return nil, append(a.faults, "it is not a valid JSON Schema")
	}
	c.own.Put(v)
	return c, a.faults
}

// checkVisits checks every schema of an adapted document against [bounds.SchemaVisits].
func (a *adapter) checkVisits(doc any) error {
	known := map[string]int64{}
	if err := bounds.SchemaVisits.Check(a.visits(doc, known)); err != nil {
		return err
	}
	for _, definition := range a.definitions {
		if err := bounds.SchemaVisits.Check(a.visits(definition, known)); err != nil {
			return err
		}
	}
	return nil
}

// validator returns a validator for the exclusive use of the caller.
func (c *compiled) validator() (*validator, error) {
	if v, ok := c.own.Get().(*validator); ok {
		return v, nil
	}
	v := &validator{}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft7)
	compiler.AssertFormat()
	compiler.UseLoader(noLoader{})
	compiler.UseRegexpEngine(v.pattern)
	v.registerPrepayFormats(compiler)
	compiler.RegisterVocabulary(&jsonschema.Vocabulary{URL: schemaURL + "/cost", Schema: vocabularySchema(),
		Compile: v.extend})
	if err := compiler.AddResource(schemaURL, c.doc); err != nil {
		return nil, err
	}
	var err error
	v.schema, err = compiler.Compile(schemaURL)
	return v, err
}

// vocabularySchema is the schema of the vocabulary, which only this package writes.
var vocabularySchema = sync.OnceValue(func() *jsonschema.Schema {
	compiler := jsonschema.NewCompiler()
	if compiler.AddResource(schemaURL, true) != nil {
		return nil
	}
	return compiler.MustCompile(schemaURL)
})

// noLoader is a loader that fetches nothing.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) { return nil, fmt.Errorf("%s is not fetched", url) }

// validate checks a value. Its error is an [*jsonschema.ValidationError] or the reason why the meter stopped. A panic
// of the library is not recovered, so that the value does not count as valid.
func (c *compiled) validate(v any, m *bounds.Meter) (err error) {
	own, err := c.validator()
	if err != nil {
		return err
	}
	own.meter = m
	defer func() {
		switch r := recover().(type) {
		case nil:
			own.meter = nil
			c.own.Put(own)
		case stopped:
			err = r.reason // the validator is not reused, because its state is unknown
		default:
			panic(r)
		}
	}()
	return own.schema.Validate(v)
}

// stopped is the panic that ends a check from within the library, which has no other way to stop.
type stopped struct{ reason error }

func (v *validator) spend(n int) {
	if !v.meter.Spend(n) {
		panic(stopped{v.meter.Err()})
	}
}

// registerPrepayFormats registers the formats of [prepay]. No value fails them.
func (v *validator) registerPrepayFormats(compiler *jsonschema.Compiler) {
	for times := range prepaid(vocabulary) + 1 {
		compiler.RegisterFormat(&jsonschema.Format{Name: prepayFormat(times), Validate: func(value any) error {
			switch value.(type) {
			case []any, map[string]any:
				v.spend(failSteps * times * sizeOf(value))
			}
			return nil
		}})
	}
}

// extend compiles the keywords that adapt adds.
func (v *validator) extend(_ *jsonschema.CompilerContext, obj map[string]any) (jsonschema.SchemaExt, error) {
	e := extension{validator: v}
	if n, ok := obj[costWord].(json.Number); ok {
		cost, err := n.Int64()
		if err != nil {
			return nil, err
		}
		e.cost = int(cost)
	}
	if list, ok := obj[valuesWord].([]any); ok {
		e.examples, e.values = list[:min(len(list), 16)], map[string]bool{}
		for _, value := range list {
			e.values[canonical(value)] = true
		}
	}
	if value, ok := obj[valueWord]; ok {
		e.constant, e.value = canonical(value), value
	}
	for name, value := range obj {
		e.deep = e.deep || vocabulary[name].deep && value != false
	}
	return e, nil
}

// extension counts the cost of visiting a schema, and looks up values of an enumeration. The library would compare them
// one by one, and only then are steps counted.
type extension struct {
	validator *validator
	cost      int
	deep      bool // the value is compared at all depths
	values    map[string]bool
	examples  []any
	constant  string // canonical; "": none
	value     any
}

// Validate implements [jsonschema.SchemaExt].
func (e extension) Validate(ctx *jsonschema.ValidatorContext, v any) {
	e.validator.spend(e.cost + sizeOf(v))
	if e.deep {
		e.validator.spend(effort(v))
	}
	if e.values != nil && !e.values[canonical(v)] {
		ctx.AddError(&kind.Enum{Got: v, Want: e.examples})
	}
	if e.constant != "" && e.constant != canonical(v) {
		ctx.AddError(&kind.Const{Got: v, Want: e.value})
	}
}

func sizeOf(v any) int {
	switch v := v.(type) {
	case []any:
		return len(v)
	case map[string]any:
		return len(v)
	case string:
		return len(v) / 64
	case json.Number:
		digits := len(v) + exponent(v)
		return digits/16 + digits*digits/40_000 // exact arithmetic is more expensive than linear
	}
	return 0
}

// exponent is how many digits the exponent of a number adds to it.
func exponent(v json.Number) int {
	at := strings.IndexAny(string(v), "eE")
	if at < 0 {
		return 0
	}
	n, err := strconv.Atoi(string(v[at+1:]))
	if err != nil { // beyond what [bounds.Number] lets pass
		return 0
	}
	return max(n, -n)
}

// effort returns the cost of comparing a value with another at all depths.
func effort(v any) int {
	n := 4 + sizeOf(v)
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			n += effort(item)
		}
	case map[string]any:
		for _, member := range v {
			n += effort(member)
		}
	}
	return n
}

// canonical returns a text that is the same for equal JSON values.
func canonical(v any) string {
	var b bytes.Buffer
	writeCanonical(&b, v)
	return b.String()
}

func writeCanonical(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case json.Number:
		if r, ok := new(big.Rat).SetString(v.String()); ok {
			b.WriteString(r.RatString())
		}
	case []any:
		b.WriteByte('[')
		for _, item := range v {
			writeCanonical(b, item)
			b.WriteByte(',')
		}
		b.WriteByte(']')
	case map[string]any:
		b.WriteByte('{')
		for _, name := range slices.Sorted(maps.Keys(v)) {
			fmt.Fprintf(b, "%q:", name)
			writeCanonical(b, v[name])
			b.WriteByte(',')
		}
		b.WriteByte('}')
	case string:
		fmt.Fprintf(b, "%q", v)
	default:
		fmt.Fprint(b, v)
	}
}

// pattern compiles a regular expression of a schema, whose matching costs steps. One in a value, which must be one by
// its format, is only parsed.
func (v *validator) pattern(text string) (jsonschema.Regexp, error) {
	if v.meter != nil {
		v.spend(parseSteps + len(text))
		_, err := syntax.Parse(text, syntax.Perl)
		return nil, err
	}
	size, err := patternSize(text)
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(text)
	return &pattern{re, v, size}, err
}

// patternSize returns the number of instructions of a regular expression.
func patternSize(text string) (int, error) {
	if err := bounds.SchemaPattern.Check(int64(len(text))); err != nil {
		return 0, err
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0, err
	}
	return len(program.Inst), bounds.SchemaPattern.Check(int64(len(program.Inst)))
}

type pattern struct {
	*regexp.Regexp
	validator *validator
	size      int
}

const (
	perStep    = 10 // instructions of a regular expression that are tried in one step, at one byte each
	parseSteps = 10 // of beginning with a regular expression
)

func (p *pattern) MatchString(s string) bool {
	if p.validator.meter != nil { // not while compiling
		p.validator.spend(parseSteps/2 + len(s)*p.size/perStep)
	}
	return p.Regexp.MatchString(s)
}

// unfinished returns the error for a check that the meter stopped: it was too expensive, or its request had ended.
func unfinished(err error) error {
	if _, over := err.(*bounds.Exceeded); !over {
		return &dispatch.Error{Kind: dispatch.Unavailable, Op: "parameters.Check",
			Text: "The request ended before its parameters were checked. Repeat it.", Err: err}
	}
	return dispatch.InvalidBody("parameters.Check", "The parameters cost too much to check: "+err.Error()+
		". Send fewer or smaller values.", "parameters")
}

// meter counts the checks of a request: a larger one may cost more.
func meter(ctx context.Context, r dispatch.Request, d *dispatch.Dimension) *bounds.Meter {
	const perByte = 2
	size := len(r.Parameters)
	for _, one := range d.All() {
		for _, value := range one.Values {
			size += len(value)
		}
	}
	bound := bounds.CheckSteps
	bound.Most += int64(perByte * size)
	return bound.Meter(ctx)
}
