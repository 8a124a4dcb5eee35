// GeoTIFFs on the map: read at the size of a preview, with one stretch for all, so that tiles can be compared.
import ImageLayer from "ol/layer/Image";
import { get as projectionOf } from "ol/proj";
import ImageStatic from "ol/source/ImageStatic";
import { fromUrl, type GeoTIFF, type TypedArray } from "geotiff";
import { texts } from "../texts";
import type { Stage } from "./stage";

export type Palette = "viridis" | "grey" | "greens";

export interface Look {
  band: number; // from 0
  palette: Palette;
  low: number | null; // null: fitted to the values
  high: number | null;
}

interface Raster {
  tiff: GeoTIFF;
  extent: number[];
  projection: string;
  bands: number;
  nodata: number | null;
  width: number;
  height: number;
  values: TypedArray;
  layer: ImageLayer<ImageStatic>;
}

const pixelsOfAll = 4_000_000; // of all rasters together

export class RasterLayer {
  private readonly rasters = new Map<string, Raster>();
  look: Look = { band: 0, palette: "viridis", low: null, high: null };
  range: [number, number] = [0, 1]; // in use

  constructor(private readonly stage: Stage) {}

  get names(): string[] {
    return [...this.rasters.keys()];
  }

  // bands is how many bands all shown rasters have.
  get bands(): number {
    return Math.min(...[...this.rasters.values()].map((r) => r.bands), Infinity);
  }

  // add reads a raster and shows it. expected is how many will be shown together.
  async add(name: string, href: string, expected: number): Promise<void> {
    const raster = await open(href, Math.sqrt(pixelsOfAll / Math.max(1, expected)), this.look.band);
    this.remove(name);
    this.rasters.set(name, raster);
    this.stage.add(raster.layer);
  }

  remove(name: string): void {
    const raster = this.rasters.get(name);
    if (raster) this.stage.map.removeLayer(raster.layer);
    this.rasters.delete(name);
  }

  clear(): void {
    this.names.forEach((name) => this.remove(name));
  }

  // choose changes the look. Another band is read anew.
  async choose(look: Partial<Look>): Promise<void> {
    const other = look.band !== undefined && look.band !== this.look.band;
    this.look = { ...this.look, ...look };
    if (other) await Promise.all([...this.rasters.values()].map(async (r) => (r.values = await read(r, this.look.band))));
    this.draw();
  }

  // draw colours all rasters by the same range of values.
  draw(): void {
    const [low, high] = this.fitted();
    this.range = [this.look.low ?? low, this.look.high ?? high];
    for (const r of this.rasters.values()) {
      r.layer.setSource(new ImageStatic({ url: picture(r, this.range, this.look.palette), imageExtent: r.extent, projection: r.projection, interpolate: false }));
    }
  }

  // fitted returns the 2nd and 98th percentile of the values that are shown.
  private fitted(): [number, number] {
    const all: number[] = [];
    const every = Math.max(1, Math.floor([...this.rasters.values()].reduce((n, r) => n + r.values.length, 0) / 100_000));
    for (const r of this.rasters.values()) {
      for (let i = 0; i < r.values.length; i += every) {
        const v = r.values[i]!;
        if (valid(v, r.nodata)) all.push(v);
      }
    }
    all.sort((a, b) => a - b);
    return all.length === 0 ? [0, 1] : [all[Math.floor(all.length * 0.02)]!, all[Math.floor((all.length - 1) * 0.98)]!];
  }
}

const valid = (v: number, nodata: number | null): boolean => Number.isFinite(v) && v !== nodata;

async function open(href: string, side: number, band: number): Promise<Raster> {
  const tiff = await fromUrl(href);
  const image = await tiff.getImage();
  const keys = image.getGeoKeys();
  const projection = `EPSG:${keys?.ProjectedCSTypeGeoKey ?? keys?.GeographicTypeGeoKey ?? 4326}`;
  if (!projectionOf(projection)) throw new Error(texts.results.unreadable(projection));
  const [width, height] = [image.getWidth(), image.getHeight()];
  const scale = Math.min(1, Math.min(1024, side) / Math.max(width, height));
  const raster: Raster = {
    tiff,
    extent: image.getBoundingBox(),
    projection,
    bands: image.getSamplesPerPixel(),
    nodata: image.getGDALNoData(),
    width: Math.max(1, Math.round(width * scale)),
    height: Math.max(1, Math.round(height * scale)),
    values: new Uint8Array(),
    layer: new ImageLayer<ImageStatic>({ zIndex: 5 }),
  };
  raster.values = await read(raster, band);
  return raster;
}

async function read(r: Raster, band: number): Promise<TypedArray> {
  const { width, height } = r;
  const [values] = await r.tiff.readRasters({ samples: [Math.min(band, r.bands - 1)], width, height }) as unknown as TypedArray[];
  return values!;
}

// picture paints values. What has no value is transparent.
function picture(r: Raster, [low, high]: [number, number], palette: Palette): string {
  const canvas = document.createElement("canvas");
  canvas.width = r.width;
  canvas.height = r.height;
  const context = canvas.getContext("2d")!;
  const image = context.createImageData(r.width, r.height);
  const table = tables[palette];
  const span = high - low || 1;
  r.values.forEach((v, i) => {
    if (!valid(v, r.nodata)) return;
    const at = Math.round(Math.max(0, Math.min(1, (v - low) / span)) * 255) * 3;
    image.data.set([table[at]!, table[at + 1]!, table[at + 2]!, 255], i * 4);
  });
  context.putImageData(image, 0, 0);
  return canvas.toDataURL();
}

// tables hold 256 colours for each palette, between the colours at equal distances.
const tables: Record<Palette, number[]> = {
  viridis: between([[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]]),
  grey: between([[0, 0, 0], [255, 255, 255]]),
  greens: between([[140, 81, 10], [223, 194, 125], [245, 245, 220], [127, 188, 65], [0, 90, 50]]),
};

function between(stops: [number, number, number][]): number[] {
  return Array.from({ length: 256 }, (_, i) => {
    const at = (i / 255) * (stops.length - 1);
    const [a, b] = [stops[Math.floor(at)]!, stops[Math.ceil(at)]!];
    return a.map((c, k) => Math.round(c + (b[k]! - c) * (at - Math.floor(at))));
  }).flat();
}

export const gradient = (palette: Palette): string => {
  const table = tables[palette];
  return `linear-gradient(to right, ${[0, 64, 128, 192, 255].map((i) => `rgb(${table.slice(i * 3, i * 3 + 3).join(" ")})`).join(", ")})`;
};

export const isGeoTIFF = (asset: { href: string; type?: string }): boolean => /geotiff|image\/tiff/i.test(asset.type ?? "") || /\.tiff?($|\?)/i.test(asset.href);
