package openeo

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// processSave saves what a node returns.
const processSave = "save_result"

// ownDocuments are what the view of all platforms publishes where no platform speaks openEO. Clients read them before
// they do anything else: the services of the catalogue can be called there, and what they return be saved in the
// formats of requests.
var ownDocuments = map[string]string{
	"/collections": `{"collections":[],"links":[]}`,
	"/processes": `{"processes":[{"id":"` + processSave + `","summary":"Save the results of a service",` +
		`"description":"Saves what a service of the namespace ` + servicesNamespace +
		` returns. A process graph consists of a call of a service and, if it is saved in another format than the service's own, of this process.",` +
		`"categories":["export"],"parameters":[` +
		`{"name":"data","description":"The results of the service.","schema":{"type":"object","subtype":"datacube"}},` +
		`{"name":"format","description":"The format of the files, one of GET /file_formats.","schema":{"type":"string","subtype":"output-format"}},` +
		`{"name":"options","description":"None are offered.","schema":{"type":"object","subtype":"output-format-options","maxProperties":0},"default":{},"optional":true}],` +
		`"returns":{"description":"Always true.","schema":{"type":"boolean","const":true}},"links":[]}],"links":[]}`,
	"/file_formats": `{"input":{},"output":{` +
		`"GTiff":{"title":"GeoTIFF","gis_data_types":["raster"],"parameters":{}},"netCDF":{"title":"netCDF","gis_data_types":["raster"],"parameters":{}},` +
		`"GeoJSON":{"title":"GeoJSON","gis_data_types":["vector"],"parameters":{}},"JSON":{"title":"JSON","gis_data_types":["other"],"parameters":{}}}}`,
	"/udf_runtimes": `{}`,
}

// ownPublication returns what the view of all platforms publishes at a path where no platform speaks openEO.
func (part listPart) ownPublication(path string, formats []string) (*answer, error) {
	if text, ok := ownDocuments[path]; ok {
		if len(formats) > 0 {
			var err error
			if text, err = withFormats(text, formats); err != nil {
				return nil, err
			}
		}
		return publicationAnswer(part.of(dispatch.Publication{Parts: [][]byte{[]byte(text)}}), "", path), nil
	}
	if strings.HasPrefix(path, "/collections/") {
		return nil, refused(http.StatusNotFound, "CollectionNotFound",
			"There is no collection here: no platform speaks openEO.")
	}
	return nil, errNoPath
}

// withFormats returns a document of file formats with further output formats.
func withFormats(document string, names []string) (string, error) {
	var doc map[string]object
	if err := json.Unmarshal([]byte(document), &doc); err != nil {
		return "", err
	}
	addFormats(doc["output"], names)
	text, err := dispatch.Encode(doc)
	return string(text), err
}

// withoutGraphs reports whether a view has no platform that runs process graphs.
func (f *Facade) withoutGraphs(v view) bool { return len(f.backendsOf(v)) == 0 }

// errOnlyServices is the error of a process graph that is no call of a service where no platform speaks openEO.
var errOnlyServices = refused(http.StatusBadRequest, "ProcessUnsupported",
	"No platform here runs process graphs. Call a service of the namespace "+servicesNamespace+
		" (GET /processes/"+servicesNamespace+") in a graph that has no other nodes, but for one "+processSave+
		" without options; the arguments must be values.")

// predefined reports whether the broker itself offers a process where no platform speaks openEO.
func (f *Facade) predefined(v view, id string) bool {
	return f.withoutGraphs(v) && id == processSave
}
