package grid

import (
	"math"

	"github.com/eodispatch/eodispatch/dispatch/bounds"
)

// neighbours finds tiles near a tile, by the squares of one degree that their boxes touch. It
// is not complete once the meter has ended.
type neighbours struct {
	meter   *bounds.Meter
	boxes   []Box
	squares map[[2]int][]int
}

// squareSteps is the cost of a square of a tile, which is kept.
const squareSteps = 4

func newNeighbours(tiles []Tile, m *bounds.Meter) *neighbours {
	n := &neighbours{m, make([]Box, len(tiles)), map[[2]int][]int{}}
	for i, t := range tiles {
		n.boxes[i] = t.Piece.Box()
		n.add(i, n.boxes[i])
	}
	return n
}

func (n *neighbours) add(i int, b Box) {
	b.squares(func(at [2]int) bool {
		if !n.meter.Spend(squareSteps) {
			return false
		}
		n.squares[at] = append(n.squares[at], i)
		return true
	})
}

// squares calls visit with the squares of one degree that a box touches, until it returns false.
func (b Box) squares(visit func([2]int) bool) {
	for x := int(math.Floor(b.West)); x <= int(math.Floor(b.East)); x++ {
		for y := int(math.Floor(b.South)); y <= int(math.Floor(b.North)); y++ {
			if !visit([2]int{x, y}) {
				return
			}
		}
	}
}

// of returns the tiles whose boxes touch that of tile i.
func (n *neighbours) of(i int) (near []int) {
	seen, b := map[int]bool{i: true}, n.boxes[i]
	b.squares(func(at [2]int) bool {
		if !n.meter.Spend(1 + len(n.squares[at])) {
			return false
		}
		for _, k := range n.squares[at] {
			c := n.boxes[k]
			if !seen[k] && b.West <= c.East+touching && c.West <= b.East+touching && b.South <= c.North+touching &&
				c.South <= b.North+touching {
				near = append(near, k)
			}
			seen[k] = true
		}
		return true
	})
	return near
}

// move tells that tile i became a part of another.
func (n *neighbours) move(i, to int) {
	n.add(to, n.boxes[i])
	n.boxes[to] = n.boxes[to].around(n.boxes[i])
}

// touching is the distance in degrees up to which two borders are the same, a tenth of a millimetre.
const touching = 1e-9

// common returns the length in degrees of the border that two shapes have in common. It ends early when spend reports
// that there is no more to spend.
func common(a, b MultiPolygon, spend func(int) bool) (sum float64) {
	for p, q := range a.edges {
		if !spend(b.positions()) {
			return sum
		}
		for r, s := range b.edges {
			sum += shared(p, q, r, s)
		}
	}
	return sum
}

// edges calls yield with the ends of each edge.
func (m MultiPolygon) edges(yield func(Point, Point) bool) {
	for _, p := range m {
		for _, r := range p {
			for i := 1; i < len(r); i++ {
				if !yield(r[i-1], r[i]) {
					return
				}
			}
		}
	}
}

// shared returns the length of what two edges have in common if they lie on one line.
func shared(a, b, c, d Point) float64 {
	dx, dy := b[0]-a[0], b[1]-a[1]
	length := math.Hypot(dx, dy)
	off := func(p Point) bool { return math.Abs(dx*(p[1]-a[1])-dy*(p[0]-a[0])) > touching*length }
	if length == 0 || off(c) || off(d) {
		return 0
	}
	from, to := c.along(a, b)/length, d.along(a, b)/length
	return max(0, min(length, max(from, to))-max(0, min(from, to)))
}
