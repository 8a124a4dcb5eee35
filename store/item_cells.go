package store

import "math"

// Items are found by the cell in which their box, or their time, begins. The cells of a level are twice as long as
// those of the level below, and an Item is in the lowest level whose cells are longer than itself: whatever meets a
// cell begins in it or in a neighbor before it.
const (
	topLevel   = 17
	cellDegree = (1 << 10) / 360.0 // cells of the lowest level in a degree: each has some 40 km
	cellDay    = 86400e6           // microseconds, the length of the lowest cells of time
	firstTime  = -2208988800e6     // 1900, in microseconds since 1970: there are cells for 358 years
)

// mostCells is how many cells a search looks up at most. What is in more of them is many Items in most cases.
const mostCells = 3000

// cell returns the number of a cell of a level by the place of one below.
func cell(level int, x, y float64) int64 { return int64(level)<<40 | int64(y)<<20 | int64(x) }

// cellOf returns the cell of what extends from low to high, in cells of the lowest level.
func cellOf(low, high [2]float64) int64 {
	level, size := 0, 1.0
	for level < topLevel && max(high[0]-low[0], high[1]-low[1]) > 0.99*size { // so that rounding does no harm
		level, size = level+1, 2*size
	}
	return cell(level, low[0]/size, low[1]/size)
}

// cellsOf returns the cells of all that may meet what extends from low to high; nil if these are too many.
func cellsOf(low, high [2]float64) (all []int64) {
	for level, size := 0, 1.0; level <= topLevel; level, size = level+1, 2*size {
		west, east := max(0, math.Floor(low[0]/size)-1), math.Floor(high[0]/size)
		south, north := max(0, math.Floor(low[1]/size)-1), math.Floor(high[1]/size)
		if float64(len(all))+(east-west+1)*(north-south+1) > mostCells {
			return nil
		}
		for y := south; y <= north; y++ {
			for x := west; x <= east; x++ {
				all = append(all, cell(level, x, y))
			}
		}
	}
	return all
}

// placeOf returns the cell of the box of an Item; nil if it has none. One that crosses the antimeridian is as wide as
// the Earth.
func placeOf(box []float64) any {
	if box == nil {
		return nil
	}
	west, east := box[0], box[2]
	if west > east {
		west, east = -180, 180
	}
	return cellOf(onEarth(west, box[1]), onEarth(east, box[3]))
}

// boxCells returns the cells of the boxes that may meet a box; nil if these are too many.
func boxCells(box []float64) []int64 {
	if box[0] > box[2] {
		west := boxCells([]float64{-180, box[1], box[2], box[3]})
		east := boxCells([]float64{box[0], box[1], 180, box[3]})
		if west == nil || east == nil {
			return nil
		}
		return append(west, east...)
	}
	return cellsOf(onEarth(box[0], box[1]), onEarth(box[2], box[3]))
}

func onEarth(longitude, latitude float64) [2]float64 {
	east, north := min(max(longitude, -180), 180)+180, min(max(latitude, -90), 90)+90
	return [2]float64{east * cellDegree, north * cellDegree}
}

// inTime returns the place of a time, in microseconds since 1970.
func inTime(us int64) [2]float64 {
	return [2]float64{min(max((float64(us)-firstTime)/cellDay, 0), 1<<topLevel)}
}
