package wire

import (
	"encoding/json"
)

// TileRequest is an area to split into tiles.
type TileRequest struct {
	AOI     Area    `json:"aoi"`
	Grid    string  `json:"grid,omitempty" doc:"Name of a grid of GET /grids. Required unless cells are given"`
	Cells   *Cells  `json:"cells,omitempty" nullable:"true" doc:"Your own grid, in place of grid"`
	Clip    *bool   `json:"clip,omitempty" nullable:"true" doc:"true, as if it is absent: cut the tiles at the border of the area; false: return whole cells"`
	MinArea float64 `json:"min_area,omitempty" nullable:"true" minimum:"0" doc:"Square metres. Tiles with a smaller piece of the area are left out. Absent: none"`
	Merge   bool    `json:"merge,omitempty" nullable:"true" doc:"true: tiles smaller than min_area become a part of the neighbour with the longest common border. Absent: false"`
	Buffer  float64 `json:"buffer,omitempty" nullable:"true" minimum:"0" maximum:"100000" doc:"Metres that each cell reaches beyond its borders, so that tiles overlap; absent: 0. Cells do not reach over the antimeridian. Not for your own cells"`
	Order   string  `json:"order,omitempty" nullable:"true" enum:"row,centre" doc:"row, as if it is absent: by rows from south to north; your own cells in the order in which you give them. centre: those nearest to the centre of the area first"`
}

// GeometryCollection is the tiles of an area (RFC 7946, section 3.1.8).
type GeometryCollection struct {
	Type       string            `json:"type" enum:"GeometryCollection"`
	Geometries []json.RawMessage `json:"geometries" doc:"A Polygon or a MultiPolygon for each tile"`
	IDs        []string          `json:"ids" doc:"The id of each tile's cell, which is the same for every area"`
}

// Grid is a division of the Earth into cells.
type Grid struct {
	Name        string  `json:"name" example:"20x20km"`
	Description string  `json:"description"`
	CellWidth   float64 `json:"cell_width" doc:"Metres, at the middle of a cell"`
	CellHeight  float64 `json:"cell_height" doc:"Metres"`
	Cells       int     `json:"cells" doc:"Number of cells of the whole grid"`
	CRS         string  `json:"crs" example:"OGC:CRS84"`
}
