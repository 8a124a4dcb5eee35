// The map of the Earth that comes with the page: land, borders and places as vector tiles, all in one file of which
// each tile is read by its range.
import type Feature from "ol/Feature";
import type { FeatureLike } from "ol/Feature";
import MVT from "ol/format/MVT";
import VectorTileLayer from "ol/layer/VectorTile";
import { get as projectionOf } from "ol/proj";
import VectorTileSource from "ol/source/VectorTile";
import { Circle, Fill, Stroke, Style, Text } from "ol/style";
import TileGrid from "ol/tilegrid/TileGrid";
import type VectorTile from "ol/VectorTile";
import file from "../../earth/made/earth.bin?url";
import listing from "../../earth/made/earth.json?url";

const zooms = [0, 2, 4, 6]; // as earth/make.js cuts them
const tileSize = 512;
const failed = 3; // TileState.ERROR of OpenLayers

type Index = Record<string, [offset: number, length: number]>;

let index: Promise<Index> | undefined;

async function readIndex(): Promise<Index> {
  const response = await fetch(new URL(listing, import.meta.url));
  if (!response.ok) throw new Error(`${listing}: ${response.status}`);
  return (await response.json()) as Index;
}

// read returns a tile; null where there is only sea.
async function read(key: string): Promise<ArrayBuffer | null> {
  index ??= readIndex();
  index.catch(() => (index = undefined));
  const at = (await index)[key];
  if (!at) return null;
  const [first, length] = at;
  const range = `bytes=${first}-${first + length - 1}`;
  const response = await fetch(new URL(file, import.meta.url), { headers: { Range: range } });
  if (response.status !== 206) throw new Error(`${file}: ${response.status}`);
  return new Response(response.body!.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

// earthLayer returns the layer of the map. Its colours come from the style sheet each time it is drawn anew.
export function earthLayer(): VectorTileLayer {
  const format = new MVT();
  const extent = projectionOf("EPSG:3857")!.getExtent();
  const width = extent[2]! - extent[0]!;
  const source = new VectorTileSource({
    format,
    tileGrid: new TileGrid({ extent, tileSize, resolutions: zooms.map(z => width / tileSize / 2 ** z) }),
    tileUrlFunction: ([z = 0, x, y]) => `${zooms[z]}/${x}/${y}`,
    tileLoadFunction: (t, key) => {
      const tile = t as VectorTile<Feature>;
      tile.setLoader((tileExtent, _, projection) => {
        read(key).then(
          content => {
            const options = { extent: tileExtent, featureProjection: projection };
            tile.setFeatures(content ? (format.readFeatures(content, options) as unknown as Feature[]) : []);
          },
          () => tile.setState(failed),
        );
      });
    },
  });
  return new VectorTileLayer({ source, declutter: true, zIndex: 0, background: "transparent" });
}

// stylesOf returns how features of the map look in colours.
export function stylesOf(colour: (name: string) => string) {
  const land = new Style({
    fill: new Fill({ color: colour("--land") }),
    stroke: new Stroke({ color: colour("--coast"), width: 1 }),
  });
  const border = new Style({ stroke: new Stroke({ color: colour("--coast"), width: 1, lineDash: [5, 3] }) });
  const place = (size: number, name: string, bold: boolean) =>
    new Style({
      zIndex: size,
      image: new Circle({ radius: size >= 100_000 ? 2.5 : 1.5, fill: new Fill({ color: colour("--soft") }) }),
      text: new Text({
        text: name,
        offsetY: -10,
        font: `${bold ? "600 " : ""}${size >= 1_000_000 ? 13 : 12}px system-ui, sans-serif`,
        fill: new Fill({ color: colour("--soft") }),
        stroke: new Stroke({ color: colour("--land"), width: 3 }),
      }),
    });
  return (feature: FeatureLike, resolution: number): Style | undefined => {
    switch (feature.get("layer")) {
      case "land":
        return land;
      case "borders":
        return border;
    }
    const size = Number(feature.get("size"));
    return size >= leastAt(resolution) ? place(size, String(feature.get("name")), feature.get("capital")) : undefined;
  };
}

// leastAt returns how many inhabitants a place has at least that is shown at a resolution in metres.
function leastAt(resolution: number): number {
  if (resolution > 10_000) return 5_000_000;
  if (resolution > 2_500) return 1_000_000;
  if (resolution > 800) return 200_000;
  if (resolution > 250) return 30_000;
  return 0;
}
