package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// Malformed says why a text is not JSON in UTF-8 (RFC 8259), and at which byte; nil if it is.
func Malformed(text []byte) *dispatch.Fault {
	if at := invalidUTF8(text); at >= 0 {
		return notJSON(at, "invalid UTF-8")
	}
	if json.Valid(text) {
		return nil
	}
	var raw json.RawMessage
	err := json.Unmarshal(text, &raw)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && syntax.Error() != "unexpected end of JSON input" {
		return notJSON(int(syntax.Offset)-1, syntax.Error())
	}
	return notJSON(len(text), "unexpected end")
}

func notJSON(at int, why string) *dispatch.Fault {
	return &dispatch.Fault{Loc: []any{"body", at}, Type: "json_invalid", Msg: "JSON decode error: " + why}
}

// invalidUTF8 gives the first byte that is not UTF-8, -1 if there is none.
func invalidUTF8(text []byte) int {
	if utf8.Valid(text) {
		return -1
	}
	for at := 0; ; {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n == 1 {
			return at
		}
		at += n
	}
}

// MaxFaults is how many faults an answer lists at most.
const MaxFaults = 100

// Inspect walks a valid JSON text once and finds what decoders would hide or choke on: members given twice, values
// nested deeper than depth levels, objects of more members than that many, numbers beyond the bounds of package bounds.
// It stops, whole false, at all but the first.
func Inspect(text []byte, depth, members int) (faults []dispatch.Fault, whole bool) {
	s := scan{text: text, depth: depth, members: members}
	whole = s.value()
	return s.faults, whole
}

type scan struct {
	text    []byte
	pos     int
	path    []step
	depth   int
	members int
	faults  []dispatch.Fault
}

// step is one level on the way down: a member's name, or where it is nil an index.
type step struct {
	name  *string
	index int
}

func (s *scan) fault(kind, msg string) {
	if len(s.faults) == MaxFaults {
		return
	}
	loc := []any{"body"}
	for _, p := range s.path {
		if p.name != nil {
			loc = append(loc, *p.name)
		} else {
			loc = append(loc, p.index)
		}
	}
	s.faults = append(s.faults, dispatch.Fault{Loc: loc, Msg: msg, Type: kind})
}

// peek gives the next byte that is not white space.
func (s *scan) peek() byte {
	for s.text[s.pos] <= ' ' {
		s.pos++
	}
	return s.text[s.pos]
}

func (s *scan) value() bool {
	switch s.peek() {
	case '{':
		return s.enter(s.object)
	case '[':
		return s.enter(s.array)
	case '"':
		s.quoted()
	default:
		return s.number()
	}
	return true
}

// number passes over a number, true, false or null.
func (s *scan) number() bool {
	begin := s.pos
	for s.pos < len(s.text) && strings.IndexByte(",]} \t\r\n", s.text[s.pos]) < 0 {
		s.pos++
	}
	if c := s.text[begin]; c != '-' && (c < '0' || c > '9') {
		return true
	}
	err := bounds.Number(s.text[begin:s.pos])
	if err != nil {
		s.fault("number_too_large", "Number has "+err.Error())
	}
	return err == nil
}

func (s *scan) enter(inside func() bool) bool {
	if len(s.path) == s.depth {
		s.path = nil
		s.fault("json_too_deep", fmt.Sprintf("JSON should have at most %d levels", s.depth))
		return false
	}
	s.path = append(s.path, step{})
	s.pos++
	if !inside() {
		return false
	}
	s.path = s.path[:len(s.path)-1]
	return true
}

func (s *scan) object() bool {
	seen := map[string]struct{}{}
	for s.peek() != '}' {
		name := unquoted(s.quoted())
		s.path[len(s.path)-1].name = &name
		if _, twice := seen[name]; twice {
			s.fault("duplicate_member", "Member given more than once")
		}
		seen[name] = struct{}{}
		if len(seen) > s.members {
			s.path = s.path[:len(s.path)-1]
			s.fault("too_many_members", fmt.Sprintf("Object should have at most %d members", s.members))
			return false
		}
		s.peek()
		s.pos++ // the colon
		if !s.value() {
			return false
		}
		s.comma()
	}
	s.pos++
	return true
}

func (s *scan) array() bool {
	for i := 0; s.peek() != ']'; i++ {
		s.path[len(s.path)-1] = step{index: i}
		if !s.value() {
			return false
		}
		s.comma()
	}
	s.pos++
	return true
}

func (s *scan) comma() {
	if s.peek() == ',' {
		s.pos++
	}
}

// quoted passes over a JSON string and gives it with its quotes.
func (s *scan) quoted() []byte {
	begin := s.pos
	for s.pos++; s.text[s.pos] != '"'; s.pos++ {
		if s.text[s.pos] == '\\' {
			s.pos++
		}
	}
	s.pos++
	return s.text[begin:s.pos]
}

// unquoted gives what a JSON string says.
func unquoted(raw []byte) (text string) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	if json.Unmarshal(raw, &text) != nil {
		return string(raw)
	}
	return text
}

func IsNull(raw json.RawMessage) bool { return string(raw) == "null" }
