package openeo_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/openeo"
)

const keptDefinition = `{"id":"ndvi","parameters":[{"name":"extent"},{"name":"note","optional":true},{"name":"none","optional":true}],"process_graph":{"kept":{"process_id":"load_collection",
	"arguments":{"spatial_extent":{"from_parameter":"extent"}}, "result":true}}}`

// A job that is pinned runs with the definition that was kept, also where the back-end reads definitions itself, and
// nothing is fetched for it.
func TestPin_SendsTheKeptDefinition(t *testing.T) {
	for name, classes := range map[string]string{"reads definitions": classes,
		"does not": `"https://api.openeo.org/1.2.0"`} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			b.capabilities(classes)
			p := b.platform()
			s := b.submission()
			s.Options, s.Definition = json.RawMessage(`{"pin":true}`), []byte(keptDefinition)
			s.Pin = dispatch.Document{Body: s.Definition}.Hash()
			for range 2 {
				if _, err := p.Submit(t.Context(), token, s); err != nil {
					t.Fatal(err)
				}
			}
			sent := b.body("POST /jobs")
			if !strings.Contains(sent, `"kept"`) || strings.Contains(sent, "udp.json") ||
				strings.Contains(sent, "from_parameter") || strings.Contains(sent, "pin") {
				t.Errorf("sent %s", sent)
			}
			for _, call := range b.takeCalls() {
				if call == "GET /udp.json" {
					t.Error("the definition was fetched")
				}
			}
			s.Definition, s.Pin, s.Options = nil, "", nil
			if _, err := p.Submit(t.Context(), token, s); err != nil {
				t.Fatal(err)
			}
			if sent := b.body("POST /jobs"); strings.Contains(sent, `"kept"`) {
				t.Errorf("a job that is not pinned: %s", sent)
			}
		})
	}
}

// A client that asks for a pin gets one where the definition has a URL. A task of a client that does not ask is pinned
// where that changes nothing of what is sent.
func TestPin_WhatIsPinned(t *testing.T) {
	d := &dispatch.Dimension{Name: "extent", Values: []json.RawMessage{[]byte(`{"west":1}`)}}
	for name, c := range map[string]struct {
		remote, asked, stored, shared bool
		pinned                        bool
		kind                          dispatch.Kind
	}{
		"asked, the back-end reads definitions":     {remote: true, asked: true, pinned: true},
		"asked, the back-end is sent graphs":        {asked: true, pinned: true},
		"a task, the back-end is sent graphs":       {pinned: true},
		"a task, the back-end reads definitions":    {remote: true},
		"a task under an account that users share":  {remote: true, shared: true, pinned: true},
		"asked of a process that the back-end has":  {asked: true, stored: true, kind: dispatch.Invalid},
		"a task of a process that the back-end has": {stored: true, kind: dispatch.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			if !c.remote {
				b.capabilities(`"https://api.openeo.org/1.2.0"`)
			}
			p := b.platform()
			if c.shared {
				p = b.platform(func(config *openeo.Config) { config.Permits = dispatch.NewPermits(nil) })
			}
			r := b.submission().Request
			if c.stored {
				r.Service.Application = "mine"
			}
			if c.asked {
				r.Options = json.RawMessage(`{"pin":true}`)
			}
			document := &dispatch.Document{Body: []byte(keptDefinition)}
			pin, err := p.Pin(t.Context(), token, r, d, document)
			if (pin == document.Hash()) != c.pinned || (pin == "") == c.pinned || dispatch.KindOf(err) != c.kind {
				t.Errorf("pinned to %q, %v", pin, err)
			}
		})
	}
}

func TestPin_AskedOfADocumentThatIsNotThere(t *testing.T) {
	b := newBackend(t)
	b.json("GET /udp.json", 503, `{}`)
	r := b.submission().Request
	r.Options = json.RawMessage(`{"pin":true}`)
	_, err := b.platform().Pin(t.Context(), token, r, nil, nil)
	if !dispatch.Is(err, dispatch.DocumentUnreachable) {
		t.Errorf("%v", err)
	}
}

// A back-end that does not take the definition itself says why, and the text tells what was sent.
func TestPin_RefusedByTheBackend(t *testing.T) {
	b := newBackend(t)
	b.json("POST /jobs", 400, `{"code":"ProcessGraphInvalid","message":"only remote processes run here"}`)
	s := b.submission()
	s.Options, s.Definition = json.RawMessage(`{"pin":true}`), []byte(keptDefinition)
	s.Pin = dispatch.Document{Body: s.Definition}.Hash()
	_, err := b.platform().Submit(t.Context(), token, s)
	if said := dispatch.TextFor(err); !dispatch.Is(err, dispatch.Invalid) ||
		!strings.Contains(said, "to which the service is pinned") ||
		!strings.Contains(said, "only remote processes run here") {
		t.Errorf("%v", err)
	}
	s.Definition, s.Pin = nil, ""
	if _, err = b.platform().Submit(t.Context(), token, s); strings.Contains(dispatch.TextFor(err), "pinned") {
		t.Errorf("a job that is not pinned: %v", err)
	}
}
