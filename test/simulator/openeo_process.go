package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// node is one node of a process graph.
type node struct {
	Process   string                     `json:"process_id"`
	Namespace *string                    `json:"namespace"`
	Arguments map[string]json.RawMessage `json:"arguments"`
	Result    bool                       `json:"result"`
}

// graph is a validated process graph.
type graph struct {
	nodes  map[string]node
	result string // id of its result node
}

// process returns the name of what the graph runs: its first remote or user-defined process, or else the process of the
// result node.
func (g graph) process() string {
	for _, name := range slices.Sorted(maps.Keys(g.nodes)) {
		if g.nodes[name].Namespace != nil {
			return g.nodes[name].Process
		}
	}
	return g.nodes[g.result].Process
}

// format returns the format of its save_result; "" without one.
func (g graph) format() string {
	var format string
	for _, n := range g.nodes {
		if n.Process == "save_result" {
			json.Unmarshal(n.Arguments["format"], &format)
		}
	}
	return format
}

// readGraph validates a request body {"process": {"process_graph": …}} as far as a back-end does before it runs.
func (s *OpenEO) readGraph(ctx context.Context, body []byte) (graph, *problem) {
	var request struct {
		Process struct {
			Graph map[string]json.RawMessage `json:"process_graph"`
		} `json:"process"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return graph{}, &problem{400, "Internal", "400 Bad Request: " + err.Error()}
	}
	if len(request.Process.Graph) == 0 {
		return graph{}, &problem{400, "ProcessGraphMissing",
			"Invalid process specified. It doesn't contain a process graph."}
	}
	g := graph{nodes: map[string]node{}}
	for _, name := range slices.Sorted(maps.Keys(request.Process.Graph)) {
		var n node
		if err := json.Unmarshal(request.Process.Graph[name], &n); err != nil || n.Process == "" {
			return g, invalidGraph("node '%s' is no process node", name)
		}
		g.nodes[name] = n
		if n.Result && g.result != "" {
			return g, invalidGraph("more than one result node: '%s' and '%s'", g.result, name)
		}
		if n.Result {
			g.result = name
		}
	}
	if g.result == "" {
		return g, invalidGraph("no result node")
	}
	for _, name := range slices.Sorted(maps.Keys(g.nodes)) {
		if p := s.checkNode(ctx, g, g.nodes[name]); p != nil {
			return g, p
		}
	}
	return g, nil
}

func invalidGraph(format string, args ...any) *problem {
	return &problem{400, "ProcessGraphInvalid", "Invalid process graph: " + fmt.Sprintf(format, args...) + "."}
}

func (s *OpenEO) checkNode(ctx context.Context, g graph, n node) *problem {
	for _, arg := range slices.Sorted(maps.Keys(n.Arguments)) {
		var ref struct {
			Node string `json:"from_node"`
		}
		if json.Unmarshal(n.Arguments[arg], &ref) == nil && ref.Node != "" {
			if _, ok := g.nodes[ref.Node]; !ok {
				return invalidGraph("'%s' refers to node '%s', which does not exist", arg, ref.Node)
			}
		}
	}
	if n.Namespace != nil && strings.Contains(*n.Namespace, "://") {
		return s.checkRemote(ctx, n.Process, *n.Namespace)
	}
	if !knownProcess(n) {
		return &problem{400, "ProcessUnsupported",
			fmt.Sprintf("Process with identifier '%s' is not available in namespace '%s'.", n.Process,
				namespaceText(n.Namespace))}
	}
	if n.Process == "save_result" {
		return checkFormat(n)
	}
	return nil
}

func namespaceText(ns *string) string {
	if ns == nil {
		return "None"
	}
	return *ns
}

// knownProcess looks up the back-end's own namespaces. Without a namespace, the user's come first, then the predefined.
func knownProcess(n node) bool {
	own := n.Process == userProcess
	_, predefined := predefinedProcesses[n.Process]
	switch namespaceText(n.Namespace) {
	case "None":
		return own || predefined
	case "user":
		return own
	case "backend":
		return predefined
	}
	return false
}

func checkFormat(n node) *problem {
	var format string
	json.Unmarshal(n.Arguments["format"], &format)
	for _, known := range []string{"GTiff", "netCDF", "GeoJSON", "JSON"} {
		if strings.EqualFold(format, known) {
			return nil
		}
	}
	return &problem{400, "FormatUnsuitable", fmt.Sprintf("Output format '%s' is not supported.", format)}
}

// checkRemote implements the Remote Process Definition extension 0.1.0: the URL serves one process, whose id must be
// the called one, or a list.
func (s *OpenEO) checkRemote(ctx context.Context, id, namespace string) *problem {
	invalid := func(why any) *problem {
		return &problem{400, "ProcessNamespaceInvalid",
			fmt.Sprintf("Process '%s' specified with invalid namespace '%s': %v", id, namespace, why)}
	}
	u, err := url.Parse(namespace)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return invalid("not an absolute http(s) URL")
	}
	if s.ListedOnly {
		return invalid("definitions at URLs are not read")
	}
	if s.Namespaces == nil {
		return nil
	}
	doc, err := fetch(ctx, s.Namespaces, namespace)
	if err != nil {
		return invalid(err)
	}
	var definition struct {
		ID        string          `json:"id"`
		Graph     json.RawMessage `json:"process_graph"`
		Processes []struct {
			ID string `json:"id"`
		} `json:"processes"`
	}
	if err := json.Unmarshal(doc, &definition); err != nil {
		return invalid("not a process definition")
	}
	for _, p := range definition.Processes {
		if p.ID == id {
			return nil
		}
	}
	if definition.Graph == nil {
		return invalid("no process graph")
	}
	if definition.ID != id {
		return &problem{400, "ProcessIdMismatch",
			fmt.Sprintf("Mismatch between expected process '%s' and process '%s' defined at '%s'.", id, definition.ID,
				namespace)}
	}
	return nil
}

func fetch(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s for url: %s", response.Status, address)
	}
	return io.ReadAll(io.LimitReader(response.Body, 16<<20))
}

// processes lists the predefined processes.
func (s *OpenEO) processes(w http.ResponseWriter, _ call) *problem {
	var all []json.RawMessage
	for _, id := range slices.Sorted(maps.Keys(predefinedProcesses)) {
		all = append(all, predefinedProcesses[id])
	}
	writeJSON(w, 200, object{"processes": all, "links": []object{}})
	return nil
}

func (s *OpenEO) validation(w http.ResponseWriter, c call) *problem {
	body, p := readBody(c)
	if p != nil {
		return p
	}
	faults := []object{}
	// the body is the process itself
	if _, p := s.readGraph(c.Context(), slices.Concat([]byte(`{"process":`), body, []byte("}"))); p != nil {
		faults = append(faults, object{"code": p.code, "message": p.message})
	}
	writeJSON(w, 200, object{"errors": faults})
	return nil
}

func readBody(c call) ([]byte, *problem) {
	body, err := io.ReadAll(c.Body)
	if err != nil {
		return nil, &problem{400, "Internal", "The request body could not be read."}
	}
	return body, nil
}

// userProcess is the one process that every user has stored.
const userProcess = "my_ndvi"

// storedProcess shows the process that every user has stored.
func (s *OpenEO) storedProcess(w http.ResponseWriter, c call) *problem {
	if c.PathValue("id") != userProcess {
		return &problem{404, "ProcessGraphNotFound", "The user has not stored this process."}
	}
	writeJSON(w, 200, object{"id": userProcess, "process_graph": object{"a": object{"process_id": "add",
		"arguments": object{"x": 1, "y": 2}, "result": true}}})
	return nil
}

// predefinedProcesses is the response of GET /processes. Processes that the broker's clients use are described in full.
var predefinedProcesses = describeProcesses()

func describeProcesses() map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	for _, id := range strings.Fields(processIDs) {
		all[id] = json.RawMessage(fmt.Sprintf(
			`{"id":%q,"description":"The openEO process %s.","parameters":[],"returns":{"schema":{}}}`, id, id))
	}
	for id, rest := range map[string]string{
		"load_collection": `"description":"Loads a collection.","parameters":[
			{"name":"id","description":"The collection.","schema":{"type":"string","subtype":"collection-id"}},
			{"name":"spatial_extent","description":"The area.","schema":[{"type":"object","subtype":"bounding-box"},{"type":"object","subtype":"geojson"},{"type":"null"}]},
			{"name":"temporal_extent","description":"The time.","schema":[{"type":"array","subtype":"temporal-interval"},{"type":"null"}]},
			{"name":"bands","description":"The bands.","optional":true,"default":null,"schema":[{"type":"array","items":{"type":"string","subtype":"band-name"}},{"type":"null"}]}],
			"returns":{"schema":{"type":"object","subtype":"datacube"}}`,
		"save_result": `"description":"Saves processed data.","parameters":[
			{"name":"data","description":"The data.","schema":{}},
			{"name":"format","description":"The file format.","schema":{"type":"string","subtype":"output-format"}},
			{"name":"options","description":"Options of the format.","optional":true,"default":{},"schema":{"type":"object","subtype":"output-format-options"}}],
			"returns":{"schema":{"type":"boolean"}}`,
		"add": `"description":"Sums up two numbers.","parameters":[
			{"name":"x","description":"The first.","schema":{"type":["number","null"]}},
			{"name":"y","description":"The second.","schema":{"type":["number","null"]}}],
			"returns":{"schema":{"type":["number","null"]}}`,
		"ndvi_composite": `"description":"The greenest NDVI of each pixel, as one composite.","parameters":[
			{"name":"spatial_extent","description":"The area.","schema":{"type":"object","subtype":"bounding-box"}},
			{"name":"temporal_extent","description":"The time.","schema":{"type":"array","subtype":"temporal-interval"}},
			{"name":"max_cloud_cover","description":"In percent.","optional":true,"default":30,"schema":{"type":"number","minimum":0,"maximum":100}}],
			"returns":{"schema":{"type":"object","subtype":"datacube"}},
			"process_graph":{"load":{"process_id":"load_collection","arguments":{"id":"SENTINEL2_L2A","spatial_extent":{"from_parameter":"spatial_extent"},"temporal_extent":{"from_parameter":"temporal_extent"},"bands":["B04","B08"]}},
				"ndvi":{"process_id":"ndvi","arguments":{"data":{"from_node":"load"},"nir":"B08","red":"B04"}},
				"max":{"process_id":"reduce_dimension","arguments":{"data":{"from_node":"ndvi"},"dimension":"t","reducer":{"process_graph":{"m":{"process_id":"max","arguments":{"data":{"from_parameter":"data"}},"result":true}}}},"result":true}}`,
	} {
		all[id] = json.RawMessage(`{"id":"` + id + `",` + rest + `}`)
	}
	return all
}

// processIDs lists the processes of openEO 1.2, stable and proposed, and some additions of back-ends.
const processIDs = `absolute add add_dimension aggregate_spatial aggregate_spatial_window aggregate_temporal
aggregate_temporal_period all and anomaly any apply apply_dimension apply_kernel apply_neighborhood apply_polygon arccos
arcosh arcsin arctan arctan2 array_apply array_append array_concat array_contains array_create array_create_labeled
array_element array_filter array_find array_find_label array_interpolate_linear array_labels array_modify arsinh artanh
atmospheric_correction between ceil climatological_normal clip cloud_detection constant cos cosh count create_data_cube
create_raster_cube cummax cummin cumproduct cumsum date_between date_difference date_replace_component date_shift debug
dimension_labels divide drop_dimension e eq exp export_workspace extrema filter_bands filter_bbox filter_labels
filter_spatial filter_temporal filter_vector first fit_curve flatten_dimensions floor ge geometry_buffer gt if inspect int
is_infinite is_nan is_nodata is_valid last linear_scale_range ln load_collection load_geojson load_result load_stac
load_uploaded_files load_url log lt lte gte mask mask_polygon max mean median merge_cubes min mod multiply nan
ndvi neq normalized_difference not or order pi power predict_curve product quantiles rearrange reduce_dimension
reduce_spatial rename_dimension rename_labels resample_cube_spatial resample_cube_temporal resample_spatial round run_udf
run_udf_externally sar_backscatter save_result sd sgn sin sinh sort sqrt subtract sum tan tanh text_begins text_concat
text_contains text_ends text_merge trim_cube unflatten_dimension variance vector_buffer vector_reproject
vector_to_random_points vector_to_regular_points xor vectorize predict_catboost predict_random_forest fit_class_random_forest
load_ml_model raster_to_vector mask_scl_dilation mask_l1c to_scl_dilation_mask ndvi_composite`
