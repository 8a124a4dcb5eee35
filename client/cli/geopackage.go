package cli

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/peterstace/simplefeatures/geom"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// layer is a table of features in a GeoPackage.
type layer struct {
	table, column string
	organization  string
	code          int // of the reference system, by the organization
}

// polygonsOfGeoPackage returns all polygons of the one layer of a GeoPackage (OGC 12-128), without heights and
// measures.
func polygonsOfGeoPackage(ctx context.Context, file string) ([]geom.Polygon, error) {
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?mode=ro")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	layers, err := layersOf(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("not a GeoPackage: %w", err)
	}
	if len(layers) != 1 {
		var names []string
		for _, l := range layers {
			names = append(names, l.table)
		}
		return nil, fmt.Errorf(
			"it has %d layers of features (%s), and must have one. Extract one: ogr2ogr -t_srs EPSG:4326 "+
				"area.geojson FILE LAYER", len(layers), oneLine(strings.Join(names, ", "), 200))
	}
	// 4979: with heights
	if l := layers[0]; !strings.EqualFold(l.organization, "EPSG") || l.code != 4326 && l.code != 4979 {
		return nil, fmt.Errorf("its reference system is %s:%d; %s", oneLine(l.organization, 40), l.code, convertIt)
	}
	return layers[0].polygons(ctx, db)
}

func layersOf(ctx context.Context, db *sql.DB) (all []layer, err error) {
	rows, err := db.QueryContext(ctx, `SELECT c.table_name, g.column_name, s.organization, s.organization_coordsys_id
		FROM gpkg_contents c JOIN gpkg_geometry_columns g ON g.table_name = c.table_name JOIN gpkg_spatial_ref_sys s ON s.srs_id = g.srs_id
		WHERE c.data_type = 'features' ORDER BY c.table_name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var l layer
		if err := rows.Scan(&l.table, &l.column, &l.organization, &l.code); err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, rows.Err()
}

const rowCost = 64 // bytes that each row counts beside its geometry: a view can have rows without end

func (l layer) polygons(ctx context.Context, db *sql.DB) (all []geom.Polygon, err error) {
	rows, err := db.QueryContext(ctx, "SELECT "+identifier(l.column)+" FROM "+identifier(l.table))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for read := 0; rows.Next(); {
		var blob sql.RawBytes
		if err := rows.Scan(&blob); err != nil {
			return nil, err
		}
		if read += len(blob) + rowCost; read > mostAreaFile {
			return nil, fmt.Errorf("its geometries are larger than %d MiB", mostAreaFile>>20)
		}
		found, err := polygonsOfBlob(blob)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, rows.Err()
}

// identifier quotes the name of a table or column.
func identifier(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

var errGeometry = errors.New("it has a geometry that is damaged")

// envelopeSizes are the numbers of bytes of an envelope, by its indicator in the header of a geometry.
var envelopeSizes = [...]int{0, 32, 48, 48, 64}

// polygonsOfBlob returns the polygons of a geometry: a header (OGC 12-128, 2.1.3) and then WKB. NULL has none.
func polygonsOfBlob(blob []byte) ([]geom.Polygon, error) {
	if len(blob) == 0 {
		return nil, nil
	}
	const fixed = 8 // bytes of the header before the envelope
	if len(blob) < fixed || string(blob[:2]) != "GP" {
		return nil, errGeometry
	}
	flags := blob[3]
	if flags&0x20 != 0 {
		return nil, errors.New("it has geometries of an extension of GeoPackage")
	}
	envelope := int(flags >> 1 & 7)
	if envelope >= len(envelopeSizes) || len(blob) < fixed+envelopeSizes[envelope] {
		return nil, errGeometry
	}
	text := blob[fixed+envelopeSizes[envelope]:]
	if _, whole := afterWKB(text, 0); !whole {
		return nil, errors.New("it has a geometry that cannot be read: it is cut off, or nested too deeply")
	}
	// the broker judges the geometry
	g, err := geom.UnmarshalWKB(text, geom.NoValidate{})
	if err != nil {
		return nil, fmt.Errorf("it has a geometry that cannot be read: %w", err)
	}
	return polygonsOfGeometry(g)
}

const deepestWKB = 16 // collections within each other

// afterWKB returns what follows a geometry, and whether all that the geometry counts is there: the package geom
// allocates for a count before it looks for the values. A type that geom refuses ends after its header.
func afterWKB(text []byte, depth int) (rest []byte, whole bool) {
	const kindAt, countAt, header = 1, 5, 9
	if len(text) < header || depth > deepestWKB {
		return nil, false
	}
	var order binary.ByteOrder = binary.LittleEndian
	if text[0] == 0 {
		order = binary.BigEndian
	}
	code, count := order.Uint32(text[kindAt:]), uint64(order.Uint32(text[countAt:]))
	rest, whole = text[header:], true
	positions := [...]uint64{2 * 8, 3 * 8, 3 * 8, 4 * 8} // bytes: plain, with a height, with a measure, with both
	if code/1000 >= uint32(len(positions)) {
		return rest, whole
	}
	position := positions[code/1000]
	switch code % 1000 {
	case 1: // a point has no count
		return after(text[countAt:], position)
	case 2:
		return after(rest, count*position)
	case 3:
		for ; count > 0 && whole; count-- {
			if len(rest) < 4 {
				return nil, false
			}
			rest, whole = after(rest[4:], uint64(order.Uint32(rest))*position)
		}
	case 4, 5, 6, 7:
		for ; count > 0 && whole; count-- {
			rest, whole = afterWKB(rest, depth+1)
		}
	}
	return rest, whole
}

// after returns what follows the first n bytes, and whether there are so many.
func after(text []byte, n uint64) (rest []byte, enough bool) {
	if uint64(len(text)) < n {
		return nil, false
	}
	return text[n:], true
}
