// Polygons that cross the antimeridian or lead around a pole, in longitudes and latitudes.
import type { MultiPolygon, Polygon, Position } from "geojson";

// cutAtAntimeridian returns the parts of a geometry between the longitudes −180 and 180 (RFC 7946, section 3.1.9).
export function cutAtAntimeridian(geometry: Polygon | MultiPolygon): MultiPolygon {
  const polygons = geometry.type === "Polygon" ? [geometry.coordinates] : geometry.coordinates;
  return { type: "MultiPolygon", coordinates: polygons.flatMap(cutPolygon) };
}

function cutPolygon(rings: Position[][]): Position[][][] {
  if (
    rings.every(ring => ring.every(([x = 0], i) => Math.abs(x) <= 180 && Math.abs(x - (ring[i - 1]?.[0] ?? x)) <= 180))
  )
    return [rings];
  const whole = rings.map(unwrap);
  return [-360, 0, 360].flatMap(shift => {
    const [outer, ...holes] = whole.map(ring => clip(ring.map(([x = 0, y = 0]) => [x + shift, y])));
    return outer && outer.length > 3 ? [[outer, ...holes.filter(hole => hole.length > 3)]] : [];
  });
}

// unwrap removes the jumps of a ring across the antimeridian, and closes a ring that leads around a pole over it.
function unwrap(ring: Position[]): Position[] {
  let turn = 0;
  const out = ring.map(([x = 0, y = 0], i): Position => {
    const step = x - (ring[i - 1]?.[0] ?? x);
    if (Math.abs(step) > 180) turn -= 360 * Math.sign(step);
    return [x + turn, y];
  });
  const [first, last] = [out[0], out.at(-1)];
  if (!first || !last || Math.abs(last[0]! - first[0]!) < 180) return out;
  const pole = 90 * Math.sign(out.reduce((sum, p) => sum + p[1]!, 0));
  return [...out, [last[0]!, pole], [first[0]!, pole], first];
}

// clip returns the part of a ring between −180 and 180 (Sutherland and Hodgman).
function clip(ring: Position[]): Position[] {
  let points = ring.slice(0, -1);
  for (const [limit, inside] of [
    [-180, (x: number) => x >= -180],
    [180, (x: number) => x <= 180],
  ] as const) {
    points = points.flatMap((p, i) => {
      const before = points[(i + points.length - 1) % points.length]!;
      const crossing = (): Position => {
        const part = (limit - before[0]!) / (p[0]! - before[0]!);
        return [limit, before[1]! + part * (p[1]! - before[1]!)];
      };
      const [was, is] = [inside(before[0]!), inside(p[0]!)];
      return is ? (was ? [p] : [crossing(), p]) : was ? [crossing()] : [];
    });
  }
  return points.length > 2 ? [...points, points[0]!] : [];
}

// boxAround returns west, south, east and north of a geometry. West is larger than east if the shortest box crosses the
// antimeridian.
export function boxAround(geometry: Polygon | MultiPolygon): [number, number, number, number] {
  const polygons = cutAtAntimeridian(geometry).coordinates;
  const points = polygons.flat(2);
  const south = points.reduce((low, p) => Math.min(low, p[1]!), 90);
  const north = points.reduce((high, p) => Math.max(high, p[1]!), -90);
  const spans = polygons
    .map(([outer = []]) =>
      outer.reduce<[number, number]>(([w, e], p) => [Math.min(w, p[0]!), Math.max(e, p[0]!)], [180, -180]),
    )
    .sort((a, b) => a[0] - b[0]);
  let [reach, west, gap] = [spans.reduce((e, s) => Math.max(e, s[1]), -180) - 360, spans[0]?.[0] ?? -180, -1];
  let east = reach + 360;
  for (const span of spans) {
    // the widest gap between two spans is outside of the box
    if (span[0] - reach > gap) [gap, west, east] = [span[0] - reach, span[0], reach];
    reach = Math.max(reach, span[1]);
  }
  return [west, south, east <= -180 ? east + 360 : east, north];
}
