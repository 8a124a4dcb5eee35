// The area of a run: polygons in longitudes and latitudes, and where they come from.
import GeoJSON from "ol/format/GeoJSON";
import { getArea } from "ol/sphere";
import type { MultiPolygon, Polygon, Position } from "geojson";
import { km2 } from "../format";
import { boxAround } from "../map/antimeridian";
import { texts } from "../texts";
import { crossesItself } from "./crossing";

export interface Area {
  geometry: Polygon | MultiPolygon;
  isBox: boolean;
  name?: string; // of the file or the country
}

const geojson = new GeoJSON();

export const sizeInKm2 = (geometry: Polygon | MultiPolygon): number =>
  getArea(geojson.readGeometry(geometry)!, { projection: "EPSG:4326" }) / 1e6;

// sizeOf returns the size of an area in words.
export const sizeOf = (geometry: Polygon | MultiPolygon): string =>
  crossesItself(geometry) ? texts.area.unknownSize : km2(sizeInKm2(geometry));

export type Corners = { west: number; south: number; east: number; north: number };

export function cornersOf(geometry: Polygon | MultiPolygon): Corners {
  const [west, south, east, north] = boxAround(geometry).map(x => Math.round(x * 1e6) / 1e6) as [
    number,
    number,
    number,
    number,
  ];
  return { west, south, east, north };
}

// boxOf returns the area within corners, or null if they span none. West is larger than east across the antimeridian.
export function boxOf({ west, south, east, north }: Corners): Area | null {
  const valid =
    [west, east].every(x => Math.abs(x) <= 180) &&
    [south, north].every(y => Math.abs(y) <= 90) &&
    south < north &&
    west !== east;
  if (!valid) return null;
  const width = (west > east ? east + 360 : east) - west;
  const steps = Math.ceil(width / 120); // an edge of more than 180 degrees would be ambiguous
  const edge = Array.from({ length: steps + 1 }, (_, i) => west + (width * i) / steps);
  const ring = [
    ...edge.map((x): Position => [x, south]),
    ...[...edge].reverse().map((x): Position => [x, north]),
    [west, south],
  ];
  return { isBox: true, geometry: { type: "Polygon", coordinates: [ring] } };
}

export const sides = ["west", "south", "east", "north"] as const;

// CornerTexts are corners as they were typed, such as "5.".
export type CornerTexts = Partial<Record<keyof Corners, string>>;

// cornerTexts returns what the fields of the corners show: what was typed, and else the corners of the area.
export function cornerTexts(typed: CornerTexts, area: Area | null): Record<keyof Corners, string> {
  const corners = area && cornersOf(area.geometry);
  const shown = (side: keyof Corners) => typed[side] ?? (corners ? String(corners[side]) : "");
  return { west: shown("west"), south: shown("south"), east: shown("east"), north: shown("north") };
}

// readCorners returns the area within the corners in the fields, or why there is none.
export function readCorners(texts: Record<keyof Corners, string>): Area | "empty" | "incomplete" | "invalid" {
  const missing = sides.filter(side => texts[side].trim() === "").length;
  if (missing > 0) return missing === sides.length ? "empty" : "incomplete";
  const { west, south, east, north } = texts;
  return boxOf({ west: Number(west), south: Number(south), east: Number(east), north: Number(north) }) ?? "invalid";
}

// fromMap returns an area that was drawn on the map, whose longitudes may be of another copy of the world.
export function fromMap(geometry: Polygon | MultiPolygon, isBox: boolean): Area {
  const outer = geometry.type === "Polygon" ? geometry.coordinates : geometry.coordinates[0]!;
  const west = Math.min(...outer[0]!.map(p => p[0]!));
  const shift = -360 * Math.floor((west + 180) / 360);
  const move = (rings: Position[][]) =>
    rings.map(ring => ring.map(([x = 0, y = 0]): Position => [x + shift, Math.max(-90, Math.min(90, y))]));
  return {
    isBox,
    geometry:
      geometry.type === "Polygon"
        ? { type: "Polygon", coordinates: move(geometry.coordinates) }
        : { type: "MultiPolygon", coordinates: geometry.coordinates.map(move) },
  };
}

// areaIn returns the first area among the values of parameters, in the forms that the broker and the platforms use.
export function areaIn(parameters: Record<string, unknown>): Polygon | MultiPolygon | null {
  for (const value of Object.values(parameters)) {
    const found = areaOfValue(value);
    if (found) return found;
  }
  return null;
}

// areaOfValue reads a box, a GeoJSON geometry or a Feature.
export function areaOfValue(value: unknown): Polygon | MultiPolygon | null {
  if (typeof value !== "object" || value === null) return null;
  const v = value as Partial<Corners> & { type?: string; bbox?: number[]; geometry?: unknown };
  if (v.type === "Polygon" || v.type === "MultiPolygon") return value as Polygon | MultiPolygon;
  if (v.type === "Feature") return areaOfValue(v.geometry);
  const [west, south, east, north] = v.bbox ?? [v.west, v.south, v.east, v.north];
  if ([west, south, east, north].some(x => typeof x !== "number")) return null;
  return boxOf({ west: west!, south: south!, east: east!, north: north! })?.geometry ?? null;
}
