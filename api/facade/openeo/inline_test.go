package openeo

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// inline returns a graph with the given processes inlined.
func inline(t *testing.T, graph string, own map[string]string) (map[string]any, error) {
	t.Helper()
	var g map[string]any
	if err := decodeNumbers([]byte(graph), &g); err != nil {
		t.Fatal(err)
	}
	in := &inliner{meter: bounds.GraphBytes.Meter(t.Context()), known: map[string]*ownProcess{},
		find: func(id string) ([]byte, error) {
			if own[id] == "" {
				return nil, &dispatch.Error{Kind: dispatch.NotFound}
			}
			return []byte(own[id]), nil
		}, serve: func(id string) (catalogue.Service, []byte, error) {
			switch {
			case id == "kept":
				return catalogue.Service{Service: dispatch.Service{Application: "kept_there", Namespace: new("u:1")}},
					nil, nil
			case own["service "+id] != "":
				return catalogue.Service{}, []byte(own["service "+id]), nil
			}
			return catalogue.Service{}, nil, &dispatch.Error{Kind: dispatch.NotFound}
		}}
	return in.graph(g)
}

func TestInline(t *testing.T) {
	t.Parallel()
	own := map[string]string{
		"scale": `{"parameters":[{"name":"cube"},{"name":"factor","optional":true,"default":0.10}],"process_graph":{
			"load":{"process_id":"apply","arguments":{"data":{"from_parameter":"cube"},
				"process":{"process_graph":{"m":{"process_id":"multiply","arguments":{"x":{"from_parameter":"x"},"y":{"from_parameter":"factor"}},"result":true}}}}},
			"out":{"process_id":"rename","arguments":{"data":{"from_node":"load"}},"result":true}}}`,
		"twice": `{"parameters":[{"name":"c"}],"process_graph":{"a":{"process_id":"scale","arguments":{"cube":{"from_parameter":"c"}}},
			"b":{"process_id":"scale","namespace":"user","arguments":{"cube":{"from_node":"a"},"factor":2},"result":true}}}`,
	}
	own["service shift"] =
		`{"id":"shift","parameters":[{"name":"c"},{"name":"by","default":7}],"process_graph":{"s":{"process_id":"scale","arguments":{"cube":{"from_parameter":"c"},"factor":{"from_parameter":"by"}},"result":true}}}`
	for name, row := range map[string]struct{ graph, want string }{
		"a service, which does not know the user's " +
			"processes": {`{"l":{"process_id":"load","arguments":{}},"s":{"process_id":"shift","namespace":"catalogue","arguments":{"c":{"from_node":"l"}},"result":true}}`,
			`{"l":{"process_id":"load","arguments":{}},"s":{"process_id":"scale","arguments":{"cube":{"from_node":"l"},"factor":7},"result":true}}`},
		"services that the platform " +
			"keeps": {`{"a":{"process_id":"kept","namespace":"catalogue","arguments":{}},"b":{"process_id":"kept","namespace":"catalogue","arguments":{"x":{"from_node":"a"}},"result":true}}`,
			`{"a":{"process_id":"kept_there","namespace":"u:1","arguments":{}},"b":{"process_id":"kept_there","namespace":"u:1","arguments":{"x":{"from_node":"a"}},"result":true}}`},
		"a service that is not " +
			"there": {`{"a":{"process_id":"none","namespace":"catalogue","arguments":{},"result":true}}`,
			`{"a":{"process_id":"none","namespace":"catalogue","arguments":{},"result":true}}`},
		"none of one's own": {`{"l":{"process_id":"load","arguments":{"id":1.50},"result":true}}`,
			`{"l":{"process_id":"load","arguments":{"id":1.50},"result":true}}`},
		"another namespace": {`{"l":{"process_id":"scale","namespace":"backend","arguments":{},"result":true}}`,
			`{"l":{"process_id":"scale","namespace":"backend","arguments":{},"result":true}}`},
		"ids that are taken": {`{"l":{"process_id":"load","arguments":{}},"s_load":{"process_id":"load","arguments":{}},
			"s":{"process_id":"scale","arguments":{"cube":{"from_node":"l"}}},"save":{"process_id":"save_result","arguments":{"data":{"from_node":"s"}},"result":true}}`,
			`{"l":{"process_id":"load","arguments":{}},"s_load":{"process_id":"load","arguments":{}},
			"s_load_2":{"process_id":"apply","arguments":{"data":{"from_node":"l"},"process":{"process_graph":{"m":{"process_id":"multiply","arguments":{"x":{"from_parameter":"x"},"y":0.10},"result":true}}}}},
			"s":{"process_id":"rename","arguments":{"data":{"from_node":"s_load_2"}}},"save":{"process_id":"save_result","arguments":{"data":{"from_node":"s"}},"result":true}}`},
		"processes in processes": {`{"t":{"process_id":"twice","arguments":{"c":{"from_parameter":"p"}},"result":true}}`,
			`{"t_a_load":{"process_id":"apply","arguments":{"data":{"from_parameter":"p"},"process":{"process_graph":{"m":{"process_id":"multiply","arguments":{"x":{"from_parameter":"x"},"y":0.10},"result":true}}}}},
			"t_a":{"process_id":"rename","arguments":{"data":{"from_node":"t_a_load"}}},
			"t_b_load":{"process_id":"apply","arguments":{"data":{"from_node":"t_a"},"process":{"process_graph":{"m":{"process_id":"multiply","arguments":{"x":{"from_parameter":"x"},"y":2},"result":true}}}}},
			"t":{"process_id":"rename","arguments":{"data":{"from_node":"t_b_load"}},"result":true}}`},
		"in a " +
			"callback": {`{"a":{"process_id":"apply","arguments":{"process":{"process_graph":{"c":{"process_id":"twice","arguments":{"c":{"from_parameter":"x"}},"result":true}}}},"result":true}}`, "t_b_load"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := inline(t, row.graph, own)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(row.want, "{") {
				text, _ := json.Marshal(got)
				if !strings.Contains(string(text), `"c_b_load"`) || strings.Contains(string(text), "twice") ||
					strings.Contains(string(text), "scale") {
					t.Errorf("got %s", text)
				}
				return
			}
			var want map[string]any
			if err := decodeNumbers([]byte(row.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What inlining costs in memory and in time is counted, not only bytes of text.
func TestInline_CountsWhatItCosts(t *testing.T) {
	t.Parallel()
	lists := "[" + strings.Repeat("[],", 1<<18) + "[]]"
	var hidden, uses []string
	for n := range 5_000 {
		hidden, uses = append(hidden, fmt.Sprintf(`{"name":"h%d"}`, n)), append(uses, `{"from_parameter":"c"}`)
	}
	own := map[string]string{
		"lists":  `{"process_graph":{"a":{"process_id":"first","arguments":{"data":` + lists + `},"result":true}}}`,
		"hidden": `{"parameters":[{"name":"c"}],"process_graph":{"a":{"process_id":"apply","arguments":{"process":{"parameters":[` + strings.Join(hidden, ",") + `],"process_graph":{"m":{"process_id":"sum","arguments":{"data":[` + strings.Join(uses, ",") + `]},"result":true}}}},"result":true}}}`,
	}
	if _, err := inline(t,
		`{"a":{"process_id":"lists","arguments":{}},"b":{"process_id":"lists","arguments":{},"result":true}}`,
		own); err == nil {
		t.Error("twice 256 Ki lists are inlined, of which each takes more memory than text")
	}
	if _, err := inline(t, `{"a":{"process_id":"hidden","arguments":{"c":1},"result":true}}`, own); err != nil {
		t.Error(err)
	}
}

func TestInline_Refused(t *testing.T) {
	t.Parallel()
	doubling := map[string]string{
		"loop":  `{"process_graph":{"a":{"process_id":"pool","arguments":{},"result":true}}}`,
		"pool":  `{"process_graph":{"a":{"process_id":"loop","arguments":{},"result":true}}}`,
		"needs": `{"parameters":[{"name":"x"}],"process_graph":{"a":{"process_id":"add","arguments":{},"result":true}}}`,
		"open":  `{"process_graph":{"a":{"process_id":"add","arguments":{}},"b":{"process_id":"add","arguments":{}}}}`,
		"deep":  `{"parameters":[{"name":"cube"}],"process_graph":{"a":{"process_id":"apply","arguments":{"process":{"process_graph":{"m":{"process_id":"mask","arguments":{"mask":{"from_parameter":"cube"}},"result":true}}}},"result":true}}}`,
	}
	for i := range 40 {
		doubling[fmt.Sprintf("d%d", i)] = fmt.Sprintf(
			`{"process_graph":{"a":{"process_id":"d%d","arguments":{}},"b":{"process_id":"d%d","arguments":{},"result":true}}}`,
			i+1, i+1)
	}
	for id, code := range map[string]string{"loop": "ProcessGraphComplexity", "needs": "ProcessParameterRequired",
		"open": "ProcessGraphInvalid", "d0": "ProcessGraphComplexity", "deep": "ProcessGraphComplexity"} {
		_, err := inline(t, `{"x":{"process_id":"`+id+
			`","arguments":{"cube":{"from_node":"y"}},"result":true},"y":{"process_id":"load","arguments":{}}}`,
			doubling)
		if r, is := err.(refusal); !is || r.code != code {
			t.Errorf("%s: %v", id, err)
		}
	}
}
