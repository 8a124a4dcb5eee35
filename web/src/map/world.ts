// The countries by name, and their outlines, which the broker serves with the page.
import TopoJSON from "ol/format/TopoJSON";
import GeoJSON from "ol/format/GeoJSON";
import type { MultiPolygon, Polygon } from "geojson";
import names from "../../earth/made/names.json";
import file from "../../earth/made/countries-50m.json?url";
import { cutAtAntimeridian } from "./antimeridian";

export const countryNames: string[] = names;

let loaded: Promise<Map<string, MultiPolygon>> | undefined;

// outlineOf returns the outline of a country.
export async function outlineOf(name: string): Promise<MultiPolygon> {
  loaded ??= read();
  loaded.catch(() => (loaded = undefined));
  const found = (await loaded).get(name);
  if (!found) throw new Error(name);
  return found;
}

async function read(): Promise<Map<string, MultiPolygon>> {
  const response = await fetch(new URL(file, import.meta.url));
  if (!response.ok) throw new Error(`${file}: ${response.status}`);
  const geojson = new GeoJSON();
  return new Map(
    new TopoJSON({ layers: ["countries"] })
      .readFeatures(await response.json())
      .map(f => [
        String(f.get("name")),
        cutAtAntimeridian(geojson.writeGeometryObject(f.getGeometry()!) as Polygon | MultiPolygon),
      ]),
  );
}
