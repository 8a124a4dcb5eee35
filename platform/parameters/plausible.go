package parameters

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// implausible returns the fault of a value that its schema allows, and that no place or time can have: services accept
// jobs with such values and fail later, or return nothing.
func (p parameter) implausible(m *bounds.Meter, value json.RawMessage, loc []any) []dispatch.Fault {
	why := ""
	switch p.Type {
	case dispatch.BoundingBox, dispatch.Polygon:
		if m.Spend(1 + len(value)/bytesPerStep) {
			why = badPlace(value)
		}
	case dispatch.DateInterval:
		why = badInterval(value)
	}
	if why == "" {
		return nil
	}
	return []dispatch.Fault{{Loc: loc, Type: "value_error", Msg: why}}
}

// badPlace says why an area in longitude and latitude lies nowhere on the Earth; "" if it may, or is in another
// reference system.
func badPlace(value json.RawMessage) string {
	b, _, isBox := boxOf(value)
	if !isBox {
		area, _, ok := extent(value)
		if !ok {
			return ""
		}
		b = area
	}
	if name := missingCRS(b.crs); name != "" {
		return "There is no reference system " + name
	}
	south, errSouth := b.South.Float64()
	north, errNorth := b.North.Float64()
	west, errWest := b.West.Float64()
	east, errEast := b.East.Float64()
	farthest := farthestSide
	if !isBox {
		farthest = farthestVertex
	}
	switch {
	case errSouth != nil || errNorth != nil || errWest != nil || errEast != nil:
		return "A side of the area is too large a number"
	case !inDegrees(b.crs):
		return ""
	case south < -90 || north > 90:
		return "Latitudes lie between -90 and 90 degrees"
	case south > north:
		return "The south of the area is greater than its north"
	case min(west, east) < -farthest || max(west, east) > farthest:
		return "Longitudes lie between -180 and 180 degrees"
	}
	return ""
}

// How far boxes and GeoJSON may go on across the antimeridian, in degrees. Some services count longitudes from 0 to
// 360.
const (
	farthestSide   = 360.0
	farthestVertex = 540.0
)

var epsg = regexp.MustCompile(
	`(?i)^(?:EPSG:|urn:ogc:def:crs:EPSG:[^:]*:|https?://www\.opengis\.net/def/crs/EPSG/[^/]*/)?(\d{1,9})$`)

// lowestEPSG is the lowest code that the EPSG register gives.
const lowestEPSG = 1024

// missingCRS returns the name of a reference system that cannot exist; "" for any other.
func missingCRS(crs json.RawMessage) string {
	found := epsg.FindStringSubmatch(strings.Trim(string(crs), `"`))
	if found == nil {
		return ""
	}
	if code, err := strconv.Atoi(found[1]); err != nil || code >= lowestEPSG {
		return ""
	}
	return "EPSG:" + found[1]
}

// inDegrees reports whether a reference system is absent, or is longitude and latitude.
func inDegrees(crs json.RawMessage) bool {
	text := strings.ToUpper(string(crs))
	return text == "" || text == "NULL" || text == "4326" || text == `"EPSG:4326"` || strings.Contains(text, "CRS84")
}

// namesCRS84 reports whether a reference system is named as longitude and latitude, in this order.
func namesCRS84(crs json.RawMessage) bool {
	return strings.Contains(strings.ToUpper(string(crs)), "CRS84")
}

// namesDegrees reports whether a reference system is named as that of longitudes and latitudes, in any order.
func namesDegrees(crs json.RawMessage) bool {
	code := epsg.FindStringSubmatch(strings.Trim(string(crs), `"`))
	return namesCRS84(crs) || code != nil && code[1] == "4326"
}

// latitudeFirst reports whether a reference system is named by a URN or URI of EPSG:4326, which stand for the
// register's order of axes: latitudes come first. With the short name EPSG:4326 most servers expect longitudes first.
func latitudeFirst(crs json.RawMessage) bool {
	return namesDegrees(crs) && strings.Contains(strings.ToUpper(string(crs)), "DEF") && !namesCRS84(crs)
}

// timeForms are the forms of the times that are recognized.
var timeForms = []string{time.RFC3339, time.DateOnly, "2006-01-02T15:04:05", time.DateTime}

// badInterval says why an interval contains no time. Open ends and other forms are left to the service.
func badInterval(value json.RawMessage) string {
	if first, last, ok := period(value); ok && last.Before(first) {
		return "The time span ends before it begins"
	}
	return ""
}

// Instants returns a plain text that names the parameters of a request, and of its dimensions, that have time spans
// which end when they begin; "" if there are none. It is for platforms where the end is not part of a span.
func (s *Set) Instants(r dispatch.Request, d *dispatch.Dimension) string {
	var given map[string]json.RawMessage
	_ = json.Unmarshal(r.Parameters, &given) // Check reports a value that is not an object
	var names []string
	for _, name := range s.names {
		if s.parameters[name].Type != dispatch.DateInterval {
			continue
		}
		values := []json.RawMessage{given[name]}
		for _, one := range d.All() {
			if one.Name == name {
				values = one.Values
			}
		}
		if slices.ContainsFunc(values, isInstant) {
			names = append(names, strconv.Quote(short(name)))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "A time span ends when it begins: " + cut(strings.Join(names, ", "), mostUnchecked) +
		". The end is not part of it, so that many platforms find no data, while some take the whole day."
}

func isInstant(value json.RawMessage) bool {
	first, last, ok := period(value)
	return ok && first.Equal(last)
}

// period returns the ends of an interval, an array of two times or a text with a slash between them.
func period(value json.RawMessage) (first, last time.Time, ok bool) {
	var ends []any
	var text string
	if json.Unmarshal(value, &text) == nil {
		for part := range strings.SplitSeq(text, "/") {
			ends = append(ends, part)
		}
	} else if json.Unmarshal(value, &ends) != nil {
		return first, last, false
	}
	if len(ends) != 2 {
		return first, last, false
	}
	first, ok = timeOf(ends[0])
	last, also := timeOf(ends[1])
	return first, last, ok && also
}

func timeOf(v any) (t time.Time, ok bool) {
	text, _ := v.(string)
	return t, slices.ContainsFunc(timeForms, func(form string) bool {
		var err error
		t, err = time.Parse(form, text)
		return err == nil
	})
}
