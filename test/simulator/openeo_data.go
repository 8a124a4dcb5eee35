package simulator

import (
	"net/http"
	"slices"
)

// defaultCollections are the collections of a back-end for which none are set.
var defaultCollections = []string{"SENTINEL2_L2A", "CGLS_SSM_1KM"}

func (s *OpenEO) collectionIDs() []string {
	if s.Collections == nil {
		return defaultCollections
	}
	return s.Collections
}

func (s *OpenEO) collections(w http.ResponseWriter, c call) *problem {
	api, all := s.api(c.Request), []object{}
	for _, id := range s.collectionIDs() {
		all = append(all, collectionOf(api, id))
	}
	writeJSON(w, 200, object{"collections": all, "links": []object{{"rel": "self", "href": api + "/collections",
		"type": "application/json"}}})
	return nil
}

// collectionOf describes a collection as the list shows it.
func collectionOf(api, id string) object {
	return object{
		"type": "Collection", "stac_version": "1.0.0", "id": id, "title": id,
		"description": "Simulated data, " + id + ".", "license": "proprietary",
		"extent": object{"spatial": object{"bbox": [][]float64{{-180, -56, 180, 83}}},
			"temporal": object{"interval": [][]any{{"2015-07-04T00:00:00Z", nil}}}},
		"links": []object{
			{"rel": "self", "href": api + "/collections/" + id, "type": "application/json"},
			{"rel": "root", "href": api + "/", "type": "application/json"},
			{"rel": "parent", "href": api + "/collections", "type": "application/json"},
			{"rel": "license", "href": "https://example.org/terms", "type": "text/html"},
		},
	}
}

func (s *OpenEO) collection(w http.ResponseWriter, c call) *problem {
	id := c.PathValue("id")
	if !slices.Contains(s.collectionIDs(), id) {
		return &problem{404, "CollectionNotFound", "The collection does not exist."}
	}
	api := s.api(c.Request)
	described := collectionOf(api, id)
	described["cube:dimensions"] = object{
		"x": object{"type": "spatial", "axis": "x", "extent": []float64{-180, 180}}, "y": object{"type": "spatial",
			"axis": "y", "extent": []float64{-56, 83}},
		"t": object{"type": "temporal", "extent": []any{"2015-07-04T00:00:00Z", nil}}, "bands": object{"type": "bands",
			"values": []string{"B04", "B08"}},
	}
	described["summaries"] = object{"eo:bands": []object{{"name": "B04"}, {"name": "B08"}}}
	described["links"] = append(described["links"].([]object),
		object{"rel": "http://www.opengis.net/def/rel/ogc/1.0/queryables",
			"href": api + "/collections/" + id + "/queryables", "type": "application/schema+json"})
	writeJSON(w, 200, described)
	return nil
}

func (s *OpenEO) queryables(w http.ResponseWriter, c call) *problem {
	if !slices.Contains(s.collectionIDs(), c.PathValue("id")) {
		return &problem{404, "CollectionNotFound", "The collection does not exist."}
	}
	writeJSON(w, 200, object{"$schema": "https://json-schema.org/draft/2019-09/schema", "$id": s.api(c.Request) +
		"/collections/" + c.PathValue("id") + "/queryables", "type": "object", "properties": object{
		"eo:cloud_cover": object{"type": "number", "minimum": 0, "maximum": 100}}})
	return nil
}

func (s *OpenEO) udfRuntimes(w http.ResponseWriter, _ call) *problem {
	writeJSON(w, 200, object{"Python": object{"title": "Python 3", "type": "language", "default": "3.11",
		"versions": object{"3.11": object{"libraries": object{}}}}})
	return nil
}

func (s *OpenEO) processingParameters(w http.ResponseWriter, _ call) *problem {
	writeJSON(w, 200, object{"create_job_parameters": []object{
		{"name": "executor-memory", "description": "Memory of each executor.", "optional": true, "default": "2G",
			"schema": object{"type": "string"}},
	}, "create_synchronous_parameters": []object{}, "create_service_parameters": []object{}})
	return nil
}
