package wire

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Collection is the results of a job, a STAC Collection. Raw is the whole document, byte for byte, and what is written.
type Collection struct {
	Type    string           `json:"type" enum:"Collection"`
	Version string           `json:"stac_version"`
	ID      string           `json:"id"`
	Title   string           `json:"title,omitempty"`
	Assets  map[string]Asset `json:"assets,omitempty"`
	Raw     json.RawMessage  `json:"-"`
}

// UnmarshalJSON implements [json.Unmarshaler].
func (c *Collection) UnmarshalJSON(text []byte) error {
	type plain Collection
	c.Raw = slices.Clone(text)
	return json.Unmarshal(text, (*plain)(c))
}

// MarshalJSON implements [json.Marshaler].
func (c Collection) MarshalJSON() ([]byte, error) { return c.Raw, nil }

// Asset is a file of results. Raw is the whole object, byte for byte, and what is written.
type Asset struct {
	Href     string          `json:"href" format:"uri-reference" doc:"Its address, which may expire; each response has a fresh one"`
	Type     string          `json:"type,omitempty" doc:"Media type"`
	Title    string          `json:"title,omitempty"`
	Roles    []string        `json:"roles,omitempty"`
	Size     int64           `json:"file:size,omitempty" doc:"Bytes; absent: not known"`
	Checksum string          `json:"file:checksum,omitempty" doc:"Multihash in hexadecimal; absent: not known"`
	Raw      json.RawMessage `json:"-"`
}

// UnmarshalJSON implements [json.Unmarshaler]. A member of a type that STAC does not give it is only in Raw.
func (a *Asset) UnmarshalJSON(text []byte) error {
	type plain Asset
	_ = json.Unmarshal(text, (*plain)(a))
	a.Raw = slices.Clone(text)
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (a Asset) MarshalJSON() ([]byte, error) { return a.Raw, nil }

// TaskCollection is the STAC Collection of a task's results.
type TaskCollection struct {
	Type        string `json:"type" enum:"Collection"`
	Version     string `json:"stac_version" example:"1.0.0"`
	ID          string `json:"id" example:"task-7"`
	Title       string `json:"title"`
	Description string `json:"description"`
	License     string `json:"license" example:"proprietary"`
	Extent      Object `json:"extent" doc:"Extent of the finished jobs: their tiles, and what is known of their results"`
	Links       []Link `json:"links" doc:"The link with the relation items leads to the Items, one for each finished job"`

	Providers  []map[string]any `json:"providers" doc:"The platform, with the fields of the processing extension"`
	Extensions []string         `json:"stac_extensions"`
	Missing    []MissingResults `json:"eodispatch:missing" doc:"Finished jobs without results"`
}

// MissingResults says why a finished job has no Item.
type MissingResults struct {
	ID        int64  `json:"id" doc:"Id of the job"`
	Name      string `json:"name,omitempty" doc:"Name of the job, such as the id of its tile's cell"`
	Code      string `json:"error_code" example:"PLATFORM_UNAVAILABLE" doc:"As in the response for the Item"`
	Message   string `json:"message"`
	Temporary bool   `json:"temporary" doc:"The same page may have the Item later"`
}

func (m *MissingResults) Error() string {
	name := ""
	if m.Name != "" {
		name = " (" + m.Name + ")"
	}
	return fmt.Sprintf("job-%d%s: %s", m.ID, name, m.Message)
}

// Link is a link between STAC objects.
type Link struct {
	Rel   string `json:"rel" example:"items"`
	Href  string `json:"href" format:"uri"`
	Type  string `json:"type,omitempty"`
	Title string `json:"title,omitempty"`
}

// MediaGeoJSON is the media type of Items and of what else is GeoJSON.
const MediaGeoJSON = "application/geo+json"

// Item is the STAC Item of one finished job.
type Item struct {
	Type       string           `json:"type" enum:"Feature"`
	Version    string           `json:"stac_version" example:"1.0.0"`
	ID         string           `json:"id" example:"42" doc:"Id of the job"`
	Collection string           `json:"collection" example:"task-7"`
	Geometry   Geometry         `json:"geometry" doc:"The job's tile: the value of the first dimension that is a bounding box or GeoJSON, else the extent of the results; null if neither is known"`
	Bbox       []float64        `json:"bbox,omitempty"`
	Properties map[string]any   `json:"properties" doc:"dimension has the names and values of the dimensions that do not give the geometry. name is that of the job"`
	Links      []Link           `json:"links"`
	Extensions []string         `json:"stac_extensions" doc:"Identifiers of STAC extensions: that of processing, whose fields in properties say where, with which software and when the job ran"`
	Assets     map[string]Asset `json:"assets" doc:"Assets of the job's results"`
}

// ItemPage is a page of a task's Items, in the order in which the jobs finished.
type ItemPage struct {
	Type     string `json:"type" enum:"FeatureCollection"`
	Features []Item `json:"features"`
	Links    []Link `json:"links" doc:"The link with the relation next leads to the next page"`
	Matched  int    `json:"numberMatched" doc:"Number of finished jobs"`
	Returned int    `json:"numberReturned"`

	Missing []MissingResults `json:"eodispatch:missing" doc:"Finished jobs without results"`
}

// TaskTiles is a map of a task's jobs.
type TaskTiles struct {
	Type     string `json:"type" enum:"FeatureCollection"`
	Features []Tile `json:"features" doc:"In the order of the dimension's values"`
}

// Tile is one job on the map.
type Tile struct {
	Type       string         `json:"type" enum:"Feature"`
	ID         int64          `json:"id" doc:"Id of the job"`
	Geometry   Geometry       `json:"geometry" doc:"The geometry of the job's Item"`
	Bbox       []float64      `json:"bbox,omitempty"`
	Properties TileProperties `json:"properties"`
}

type TileProperties struct {
	Title    string   `json:"title"`
	Name     string   `json:"name,omitempty" doc:"Name of the job, such as the id of its tile's cell"`
	Status   Status   `json:"status" enum:"created,submitted,queued,running,finished,canceled,failed,unknown"`
	Progress *float64 `json:"progress,omitempty" doc:"Percent"`
	Failure  string   `json:"failure,omitempty"`
}
