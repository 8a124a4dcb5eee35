package wire

// TaskCollection is the STAC Collection of a task's results.
type TaskCollection struct {
	Type        string `json:"type" enum:"Collection"`
	Version     string `json:"stac_version" example:"1.0.0"`
	ID          string `json:"id" example:"task-7"`
	Title       string `json:"title"`
	Description string `json:"description"`
	License     string `json:"license" example:"proprietary"`
	Extent      Object `json:"extent" doc:"Extent of the finished jobs: their tiles, and what is known of their results"`
	Links       []Link `json:"links" nullable:"false" doc:"The link with the relation items leads to the Items, one for each finished job"`

	Providers  []map[string]any `json:"providers" nullable:"false" doc:"The platform, with the fields of the processing extension"`
	Extensions []string         `json:"stac_extensions" nullable:"false"`
	Missing    []MissingResults `json:"eodispatch:missing" nullable:"false" doc:"Finished jobs without results"`
}

// MissingResults says why a finished job has no Item.
type MissingResults struct {
	ID        int64  `json:"id" doc:"Id of the job"`
	Name      string `json:"name,omitempty" doc:"Name of the job, such as the id of its tile's cell"`
	Code      string `json:"error_code" example:"PLATFORM_UNAVAILABLE" doc:"As in the response for the Item"`
	Message   string `json:"message"`
	Temporary bool   `json:"temporary" doc:"The same page may have the Item later"`
}

// Link is a link between STAC objects.
type Link struct {
	Rel   string `json:"rel" example:"items"`
	Href  string `json:"href" format:"uri"`
	Type  string `json:"type,omitempty"`
	Title string `json:"title,omitempty"`
}

// Item is the STAC Item of one finished job.
type Item struct {
	Type       string            `json:"type" enum:"Feature"`
	Version    string            `json:"stac_version" example:"1.0.0"`
	ID         string            `json:"id" example:"42" doc:"Id of the job"`
	Collection string            `json:"collection" example:"task-7"`
	Geometry   Geometry          `json:"geometry" doc:"The job's tile: the value of the first dimension that is a bounding box or GeoJSON, else the extent of the results; null if neither is known"`
	Bbox       []float64         `json:"bbox,omitempty" nullable:"false"`
	Properties map[string]any    `json:"properties" doc:"dimension has the names and values of the dimensions that do not give the geometry. name is that of the job"`
	Links      []Link            `json:"links" nullable:"false"`
	Extensions []string          `json:"stac_extensions" nullable:"false" doc:"Identifiers of STAC extensions: that of processing, whose fields in properties say where, with which software and when the job ran"`
	Assets     map[string]Object `json:"assets" doc:"Assets of the job's results"`
}

// ItemPage is a page of a task's Items, in the order in which the jobs finished.
type ItemPage struct {
	Type     string `json:"type" enum:"FeatureCollection"`
	Features []Item `json:"features" nullable:"false"`
	Links    []Link `json:"links" nullable:"false" doc:"The link with the relation next leads to the next page"`
	Matched  int    `json:"numberMatched" doc:"Number of finished jobs"`
	Returned int    `json:"numberReturned"`

	Missing []MissingResults `json:"eodispatch:missing" nullable:"false" doc:"Finished jobs without results"`
}

// TaskTiles is a map of a task's jobs.
type TaskTiles struct {
	Type     string `json:"type" enum:"FeatureCollection"`
	Features []Tile `json:"features" nullable:"false" doc:"In the order of the dimension's values"`
}

// Tile is one job on the map.
type Tile struct {
	Type       string         `json:"type" enum:"Feature"`
	ID         int64          `json:"id" doc:"Id of the job"`
	Geometry   Geometry       `json:"geometry" doc:"The geometry of the job's Item"`
	Bbox       []float64      `json:"bbox,omitempty" nullable:"false"`
	Properties TileProperties `json:"properties"`
}

type TileProperties struct {
	Title    string   `json:"title"`
	Name     string   `json:"name,omitempty" doc:"Name of the job, such as the id of its tile's cell"`
	Status   string   `json:"status" enum:"created,submitted,queued,running,finished,canceled,failed,unknown"`
	Progress *float64 `json:"progress,omitempty" doc:"Percent"`
	Failure  string   `json:"failure,omitempty"`
}
