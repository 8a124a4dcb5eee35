package ogcapi

import (
	_ "embed"
	"encoding/json"
	"strings"
)

// The conformance classes that the façade implements: of version 1.0 and, as far as they are drafted, of version 2.0
// and of Part 4.
var conformanceClasses = []string{
	"http://www.opengis.net/spec/ogcapi-common-1/1.0/conf/core",
	"http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/core",
	"http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/ogc-process-description",
	"http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/json",
	"http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/oas30",
	"http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/job-list",
	"http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/callback",
	"http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/dismiss",
	"http://www.opengis.net/spec/ogcapi-processes-1/2.0/conf/core",
	"http://www.opengis.net/spec/ogcapi-processes-1/2.0/conf/ogc-process-description",
	"http://www.opengis.net/spec/ogcapi-processes-1/2.0/conf/json",
	"http://www.opengis.net/spec/ogcapi-processes-1/2.0/conf/oas30",
	"http://www.opengis.net/spec/ogcapi-processes-1/2.0/conf/job-list",
	"http://www.opengis.net/spec/ogcapi-processes-1/2.0/conf/callback",
	"http://www.opengis.net/spec/ogcapi-processes-1/2.0/conf/dismiss",
	// not that of provenance, whose draft does not agree with itself about the paths of runs and outputs
	"http://www.opengis.net/spec/ogcapi-processes-4/1.0/conf/job-management",
}

const mediaOpenAPI = "application/vnd.oai.openapi+json;version=3.0"

func (f *Facade) landingPage(in *request) (*answer, error) {
	title, description := f.Title, f.Description
	if !in.view.whole() {
		title = strings.TrimPrefix(in.view.path, root+"/") + ": " + title
	}
	return &answer{Body: map[string]any{"title": title, "description": description, "links": []link{
		{in.root, "self", mediaJSON, "This document"},
		{in.root + "/api", "service-desc", mediaOpenAPI, "The interface as OpenAPI 3.0"},
		{in.BaseURL(in.Request) + "/docs", "service-doc", "text/html", "The broker's own interface"},
		{in.root + "/conformance", relation("conformance"), mediaJSON, "Conformance classes"},
		{in.root + "/conformance", "conformance", mediaJSON, "Conformance classes"},
		{in.root + "/processes", relation("processes"), mediaJSON, "Processes"},
		{in.root + "/jobs", relation("job-list"), mediaJSON, "Your jobs"},
	}}}, nil
}

func (f *Facade) conformance(*request) (*answer, error) {
	return &answer{Body: map[string]any{"conformsTo": conformanceClasses}}, nil
}

//go:embed openapi.json
var openAPI []byte

// document returns the OpenAPI document with the address and the version of this server.
func (f *Facade) document(in *request) (*answer, error) {
	var d map[string]any
	if err := json.Unmarshal(openAPI, &d); err != nil {
		return nil, err
	}
	d["info"] = map[string]any{"title": f.Title, "description": f.Description, "version": f.Version}
	d["servers"] = []map[string]any{{"url": in.root}}
	return &answer{Body: d, MediaType: mediaOpenAPI}, nil
}
