// Outlines of the countries, which the broker serves with the page.
import Feature from "ol/Feature";
import TopoJSON from "ol/format/TopoJSON";
import GeoJSON from "ol/format/GeoJSON";
import type { MultiPolygon, Polygon } from "geojson";
import coarse from "world-atlas/countries-110m.json?url";
import fine from "world-atlas/countries-50m.json?url";
import { cutAtAntimeridian } from "./antimeridian";

export interface Country {
  name: string;
  geometry: MultiPolygon;
}

const loaded = new Map<string, Promise<Country[]>>();

// countries returns the countries by name; detailed outlines are 230 kB more to load.
export function countries(detailed: boolean): Promise<Country[]> {
  const file = detailed ? fine : coarse;
  const known = loaded.get(file) ?? read(file);
  loaded.set(file, known);
  known.catch(() => loaded.delete(file));
  return known;
}

async function read(file: string): Promise<Country[]> {
  const response = await fetch(new URL(file, import.meta.url));
  if (!response.ok) throw new Error(`${file}: ${response.status}`);
  const geojson = new GeoJSON();
  return new TopoJSON({ layers: ["countries"] })
    .readFeatures(await response.json())
    .map(f => ({
      name: String(f.get("name")),
      geometry: cutAtAntimeridian(geojson.writeGeometryObject(f.getGeometry()!) as Polygon | MultiPolygon),
    }))
    .sort((a, b) => a.name.localeCompare(b.name));
}

// outlines returns the countries as features of a map.
export async function outlines(detailed: boolean): Promise<Feature[]> {
  const geojson = new GeoJSON({ dataProjection: "EPSG:4326", featureProjection: "EPSG:3857" });
  return (await countries(detailed)).map(c => new Feature(geojson.readGeometry(c.geometry)!));
}
