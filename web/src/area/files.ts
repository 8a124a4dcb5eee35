// Areas in files: GeoJSON, KML and zipped shapefiles.
import type { GeoJSON as AnyGeoJSON, MultiPolygon, Polygon, Position } from "geojson";
import { bytes } from "../format";
import { texts } from "../texts";
import type { Area } from "./area";

const largest = 20_000_000; // bytes

// readAreaFile returns the polygons of a file as one area. It throws an Error whose message ends the sentence "FILE
// cannot be used: …".
export async function readAreaFile(file: File): Promise<{ area: Area; polygons: number }> {
  if (file.size > largest) throw new Error(texts.area.tooLarge(bytes(largest)));
  const polygons = checked(await parse(file));
  return { area: { geometry: joined(polygons), isBox: false, name: file.name }, polygons: polygons.length };
}

// readAreaText returns the polygons of GeoJSON that was typed.
export function readAreaText(text: string): Area {
  let parsed: AnyGeoJSON;
  try {
    parsed = JSON.parse(text) as AnyGeoJSON;
  } catch {
    throw new Error(texts.form.badJSON);
  }
  const polygons = checked(parsed);
  return { geometry: joined(polygons), isBox: false };
}

// checked returns the polygons of GeoJSON that others wrote: each with a ring, each ring closed, positions in degrees.
function checked(value: AnyGeoJSON | null): Position[][][] {
  let polygons: Position[][][];
  try {
    polygons = polygonsIn(value).map(flat);
  } catch {
    // a member is missing or of another type
    throw new Error(texts.area.broken);
  }
  if (polygons.length === 0) throw new Error(texts.area.empty);
  checkDegrees(polygons);
  if (polygons.some(rings => rings.length === 0 || rings.some(ring => ring.length < 4)))
    throw new Error(texts.area.broken);
  return polygons;
}

function joined(polygons: Position[][][]): Polygon | MultiPolygon {
  return polygons.length === 1
    ? { type: "Polygon", coordinates: polygons[0]! }
    : { type: "MultiPolygon", coordinates: polygons };
}

async function parse(file: File): Promise<AnyGeoJSON> {
  try {
    if (/\.zip$/i.test(file.name)) {
      const { default: readShapefile } = await import("shpjs");
      const found = await readShapefile(await file.arrayBuffer());
      return Array.isArray(found) ? { type: "FeatureCollection", features: found.flatMap(f => f.features) } : found;
    }
    const text = await file.text();
    if (/\.kml$/i.test(file.name) || text.trimStart().startsWith("<")) {
      const { kml } = await import("@tmcw/togeojson"); // the reader of OpenLayers requests icons from another server
      const document = new DOMParser().parseFromString(text, "text/xml");
      if (document.querySelector("parsererror")) throw new Error(texts.area.unreadable);
      return kml(document) as AnyGeoJSON;
    }
    return JSON.parse(text) as AnyGeoJSON;
  } catch {
    throw new Error(texts.area.unreadable);
  }
}

function polygonsIn(value: AnyGeoJSON | null): Position[][][] {
  switch (value?.type) {
    case "FeatureCollection":
      return value.features.flatMap(f => polygonsIn(f));
    case "Feature":
      return polygonsIn(value.geometry);
    case "GeometryCollection":
      return value.geometries.flatMap(g => polygonsIn(g));
    case "MultiPolygon":
      return value.coordinates;
    case "Polygon":
      return [value.coordinates];
  }
  return [];
}

// flat drops heights and closes rings.
const flat = (rings: Position[][]): Position[][] =>
  rings.map(ring => closed(ring.map(([x = NaN, y = NaN]): Position => [x, y])));

function closed(ring: Position[]): Position[] {
  const [first, last] = [ring[0], ring.at(-1)];
  return first && last && (first[0] !== last[0] || first[1] !== last[1]) ? [...ring, first] : ring;
}

function checkDegrees(polygons: Position[][][]): void {
  const inDegrees = ([x, y]: Position) =>
    typeof x === "number" && typeof y === "number" && Math.abs(x) <= 540 && Math.abs(y) <= 90;
  if (!polygons.every(rings => rings.every(ring => ring.every(inDegrees)))) throw new Error(texts.area.outside);
}
