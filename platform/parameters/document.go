package parameters

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// Reader reads the schemas of one service, which share the bounds SchemaNodes and SchemaSteps. It is for one goroutine.
type Reader struct {
	nodes, steps *bounds.Meter
	read         map[string]*document // by the text of the schema
}

// NewReader returns a reader whose work stops when ctx ends.
func NewReader(ctx context.Context) *Reader {
	return &Reader{bounds.SchemaNodes.Meter(ctx), bounds.SchemaSteps.Meter(ctx), map[string]*document{}}
}

// document is a parsed schema with its resolved references.
type document struct {
	root    *node
	reader  *Reader
	schemas map[*node]*schema
	fault   error // why the schema cannot be read; nil: it can

	compiled bool // check and faults are known
	check    *compiled
	faults   []string
}

func (r *Reader) document(raw json.RawMessage) *document {
	if d := r.read[string(raw)]; d != nil {
		return d
	}
	d := &document{reader: r, schemas: map[*node]*schema{}}
	d.root, d.fault = parse(raw, r.nodes)
	if d.fault != nil {
		d.root = &node{raw: json.RawMessage("{}")}
	}
	r.read[string(raw)] = d
	return d
}

type node struct {
	raw     json.RawMessage
	members map[string]*node // of an object
	list    []*node          // of an array
}

func (n *node) kind() byte {
	if n == nil || len(n.raw) == 0 {
		return 0
	}
	return n.raw[0]
}

// parse reads a JSON text. Each value in it costs a step.
func parse(raw json.RawMessage, m *bounds.Meter) (*node, error) {
	if len(raw) == 0 {
		return &node{raw: json.RawMessage("{}")}, nil
	}
	if err := bounds.Numbers(raw); err != nil {
		return nil, err
	}
	p := parser{text: raw, tokens: json.NewDecoder(bytes.NewReader(raw)), meter: m}
	p.tokens.UseNumber()
	n, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if _, err := p.tokens.Token(); !errors.Is(err, io.EOF) {
		return nil, errNoJSON
	}
	return n, nil
}

var errNoJSON = errors.New("it is not valid JSON")

type parser struct {
	text   []byte
	tokens *json.Decoder
	meter  *bounds.Meter
}

func (p *parser) value(depth int) (*node, error) {
	if err := bounds.SchemaDepth.Check(int64(depth)); err != nil {
		return nil, err
	}
	if !p.meter.Spend(1) {
		return nil, p.meter.Err()
	}
	before := p.tokens.InputOffset()
	token, err := p.tokens.Token()
	n := &node{}
	opened, nested := token.(json.Delim)
	if opened == '{' {
		n.members = map[string]*node{}
	}
	for err == nil && nested && p.tokens.More() {
		if err = p.inner(n, depth); err != nil {
			return nil, err
		}
	}
	if err == nil && nested {
		_, err = p.tokens.Token()
	}
	if err != nil {
		return nil, errNoJSON
	}
	n.raw = bytes.TrimLeft(p.text[before:p.tokens.InputOffset()], " \t\r\n,:")
	return n, nil
}

// inner reads a member of an object, or an element of an array.
func (p *parser) inner(n *node, depth int) error {
	var name json.Token
	if n.members != nil {
		var err error
		if name, err = p.tokens.Token(); err != nil {
			return errNoJSON
		}
	}
	one, err := p.value(depth + 1)
	if text, named := name.(string); named {
		n.members[text] = one
	} else {
		n.list = append(n.list, one)
	}
	return err
}

// at resolves a reference within the document: a JSON pointer (RFC 6901) after "#". It returns nil if the target does
// not exist.
func (d *document) at(ref string) *node {
	pointer, local := strings.CutPrefix(ref, "#")
	if pointer, err := url.PathUnescape(pointer); err != nil || !local || pointer != "" && pointer[0] != '/' {
		return nil
	} else if pointer == "" {
		return d.root
	} else {
		return d.root.below(strings.Split(pointer[1:], "/"))
	}
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

func (n *node) below(path []string) *node {
	for _, step := range path {
		switch {
		case n == nil:
			return nil
		case n.list != nil:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(n.list) {
				return nil
			}
			n = n.list[i]
		default:
			n = n.members[unescape.Replace(step)]
		}
	}
	return n
}

// mostHops bounds how many references may refer to references.
const mostHops = 16

// target resolves a reference to a schema that is not a reference itself; nil if there is none.
func (d *document) target(ref string) *node {
	for range mostHops {
		n := d.at(ref)
		if n == nil || !d.reader.steps.Spend(1) {
			return nil
		}
		next, ok := n.members["$ref"].text()
		if !ok {
			return n
		}
		ref = next
	}
	return nil
}

func (n *node) text() (s string, ok bool) {
	return s, n.kind() == '"' && json.Unmarshal(n.raw, &s) == nil
}

func (n *node) texts() (all []string) {
	for _, item := range n.list {
		s, ok := item.text()
		if !ok {
			return nil
		}
		all = append(all, s)
	}
	return all
}

func (n *node) names() []string {
	if one, ok := n.text(); ok {
		return []string{one}
	}
	return n.texts()
}

func (n *node) isTrue() bool { return n.kind() == 't' }

func (n *node) orNil() *node {
	if n.kind() == 'n' {
		return nil
	}
	return n
}

func (n *node) number() *json.Number {
	if k := n.kind(); k != '-' && (k < '0' || k > '9') {
		return nil
	}
	number := json.Number(n.raw)
	return &number
}

// schema decodes the schema in a node. Keywords of a wrong form are ignored, so that the other keywords stay useful.
func (d *document) schema(n *node) *schema {
	if s := d.schemas[n]; s != nil {
		return s
	}
	s := &schema{doc: d}
	d.schemas[n] = s
	switch n.kind() {
	case '[':
		s.list = n.list
	case '{':
		for name, value := range n.members {
			if read := vocabulary[name].read; read != nil {
				read(s, value)
			}
		}
	}
	return s
}

func (n *node) raws() (all []json.RawMessage) {
	if n.kind() == '[' {
		all = []json.RawMessage{}
	}
	for _, item := range n.list {
		all = append(all, item.raw)
	}
	return all
}

// warning describes the unsupported parts of a schema; "": there are none.
func warning(name string, faults []string) string {
	if len(faults) == 0 {
		return ""
	}
	faults = slices.Compact(slices.Sorted(slices.Values(faults))) // a copy: parameters of one schema share its faults
	const most = 5
	text := strings.Join(faults[:min(len(faults), most)], "; ")
	if len(faults) > most {
		text += "; and more"
	}
	return "The schema of the parameter " + strconv.Quote(short(name)) +
		" is not fully supported, so its values are checked only in part: " + text + "."
}

func short(s string) string { return cut(s, 100) }

func shorter(s string) string { return cut(s, 1_000) }

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
