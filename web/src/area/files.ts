// Areas in files: GeoJSON, KML and zipped shapefiles.
import type { GeoJSON as AnyGeoJSON, MultiPolygon, Polygon, Position } from "geojson";
import { bytes } from "../format";
import { texts } from "../texts";
import type { Area } from "./area";

const largest = 20_000_000; // bytes

// readAreaFile returns the polygons of a file as one area. It throws an Error whose message ends the sentence "FILE cannot be used: …".
export async function readAreaFile(file: File): Promise<{ area: Area; polygons: number }> {
  if (file.size > largest) throw new Error(texts.area.tooLarge(bytes(largest)));
  const polygons = polygonsIn(await parse(file)).map(flat);
  if (polygons.length === 0) throw new Error(texts.area.empty);
  checkDegrees(polygons);
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
  const polygons = polygonsIn(parsed).map(flat);
  if (polygons.length === 0) throw new Error(texts.area.empty);
  checkDegrees(polygons);
  return { geometry: joined(polygons), isBox: false };
}

function joined(polygons: Position[][][]): Polygon | MultiPolygon {
  return polygons.length === 1 ? { type: "Polygon", coordinates: polygons[0]! } : { type: "MultiPolygon", coordinates: polygons };
}

async function parse(file: File): Promise<AnyGeoJSON> {
  try {
    if (/\.zip$/i.test(file.name)) {
      const { default: readShapefile } = await import("shpjs");
      const found = await readShapefile(await file.arrayBuffer());
      return Array.isArray(found) ? { type: "FeatureCollection", features: found.flatMap((f) => f.features) } : found;
    }
    const text = await file.text();
    if (/\.kml$/i.test(file.name) || text.trimStart().startsWith("<")) {
      const [{ default: KML }, { default: GeoJSON }] = await Promise.all([import("ol/format/KML"), import("ol/format/GeoJSON")]);
      return new GeoJSON().writeFeaturesObject(new KML({ extractStyles: false }).readFeatures(text));
    }
    return JSON.parse(text) as AnyGeoJSON;
  } catch {
    throw new Error(texts.area.unreadable);
  }
}

function polygonsIn(value: AnyGeoJSON | null): Position[][][] {
  switch (value?.type) {
    case "FeatureCollection":
      return value.features.flatMap((f) => polygonsIn(f));
    case "Feature":
      return polygonsIn(value.geometry);
    case "GeometryCollection":
      return value.geometries.flatMap((g) => polygonsIn(g));
    case "MultiPolygon":
      return value.coordinates;
    case "Polygon":
      return [value.coordinates];
  }
  return [];
}

// flat drops heights.
const flat = (rings: Position[][]): Position[][] => rings.map((ring) => ring.map(([x = NaN, y = NaN]) => [x, y]));

function checkDegrees(polygons: Position[][][]): void {
  const inDegrees = ([x = NaN, y = NaN]: Position) => Math.abs(x) <= 540 && Math.abs(y) <= 90;
  if (!polygons.every((rings) => rings.every((ring) => ring.every(inDegrees)))) throw new Error(texts.area.outside);
}
