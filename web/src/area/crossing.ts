// Outlines that cross themselves, as a figure of eight does. Their size is not defined.
import type { MultiPolygon, Polygon, Position } from "geojson";

type Segment = [x1: number, y1: number, x2: number, y2: number];

// crossesItself reports whether a ring of a geometry crosses itself. It compares segments only with those that overlap
// them from west to east, so that outlines of ten thousand corners take milliseconds.
export function crossesItself(geometry: Polygon | MultiPolygon): boolean {
  const polygons = geometry.type === "Polygon" ? [geometry.coordinates] : geometry.coordinates;
  return polygons.some(rings => rings.some(ringCrosses));
}

function ringCrosses(ring: Position[]): boolean {
  const segments = ring
    .slice(1)
    .map(([x = 0, y = 0], i): Segment => [ring[i]![0]!, ring[i]![1]!, x, y])
    .filter(s => s[0] !== s[2] || s[1] !== s[3]);
  const west = (s: Segment) => Math.min(s[0], s[2]);
  const east = (s: Segment) => Math.max(s[0], s[2]);
  const sorted = [...segments].sort((a, b) => west(a) - west(b));
  return sorted.some((a, i) => {
    for (let k = i + 1; k < sorted.length && west(sorted[k]!) <= east(a); k++) {
      if (cross(a, sorted[k]!)) return true;
    }
    return false;
  });
}

// cross reports whether two segments cross between their ends. Segments that only touch, as neighbours do, do not
// cross.
function cross(a: Segment, b: Segment): boolean {
  return side(a, b[0], b[1]) * side(a, b[2], b[3]) < 0 && side(b, a[0], a[1]) * side(b, a[2], a[3]) < 0;
}

const side = ([x1, y1, x2, y2]: Segment, x: number, y: number): number =>
  Math.sign((x2 - x1) * (y - y1) - (y2 - y1) * (x - x1));
