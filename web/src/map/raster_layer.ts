// GeoTIFFs on the map: read at the size of a preview, with one stretch for all, so that tiles can be compared.
import ImageLayer from "ol/layer/Image";
import { get as projectionOf } from "ol/proj";
import ImageStatic from "ol/source/ImageStatic";
import { fromUrl, type GeoTIFF, type TypedArray } from "geotiff";
import { texts } from "../texts";
import type { Stage } from "./stage";

export type Palette = "viridis" | "grey" | "greens";

// Stretch is which values have different colours: those between the 2nd and the 98th percentile, or all.
export type Stretch = "most" | "all";

export interface Look {
  bands: number[]; // from 0: one in the colours of the palette, or three as red, green and blue
  palette: Palette;
  stretch: Stretch;
  low: number | null; // of one band; null: by the stretch
  high: number | null;
}

export const initialLook: Look = { bands: [0], palette: "viridis", stretch: "most", low: null, high: null };

type Range = [low: number, high: number];

interface Raster {
  tiff: GeoTIFF;
  extent: number[];
  projection: string;
  bands: number;
  nodata: number | null;
  width: number;
  height: number;
  values: TypedArray[]; // of the bands of the look
  layer: ImageLayer<ImageStatic>;
}

const pixelsOfAll = 4_000_000; // of all rasters together

export class RasterLayer {
  private readonly rasters = new Map<string, Raster>();
  look: Look = initialLook;
  range: Range = [0, 1]; // of the first band that is shown

  constructor(private readonly stage: Stage) {}

  get names(): string[] {
    return [...this.rasters.keys()];
  }

  // bands is how many bands all shown rasters have.
  get bands(): number {
    return Math.min(...[...this.rasters.values()].map(r => r.bands), Infinity);
  }

  // add reads a raster and shows it. expected is how many will be shown together.
  async add(name: string, href: string, expected: number): Promise<void> {
    const raster = await open(href, Math.sqrt(pixelsOfAll / Math.max(1, expected)), this.look.bands);
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
    this.names.forEach(name => this.remove(name));
  }

  // choose changes the look. Other bands are read anew.
  async choose(look: Partial<Look>): Promise<void> {
    const bands = this.look.bands.join();
    this.look = { ...this.look, ...look };
    if (this.look.bands.join() !== bands) {
      await Promise.all([...this.rasters.values()].map(async r => (r.values = await read(r, this.look.bands))));
    }
    this.draw();
  }

  // draw colours all rasters by the same ranges of values.
  draw(): void {
    const ranges = this.look.bands.map((_, i) => this.fitted(i));
    if (ranges.length === 1) ranges[0] = [this.look.low ?? ranges[0]![0], this.look.high ?? ranges[0]![1]];
    this.range = ranges[0] ?? [0, 1];
    for (const r of this.rasters.values()) {
      r.layer.setSource(
        new ImageStatic({
          url: picture(r, ranges, this.look.palette),
          imageExtent: r.extent,
          projection: r.projection,
          interpolate: false,
        }),
      );
    }
  }

  // fitted returns the range of the values of a shown band, by the stretch.
  private fitted(band: number): Range {
    const all: number[] = [];
    const every = Math.max(
      1,
      Math.floor([...this.rasters.values()].reduce((n, r) => n + r.width * r.height, 0) / 100_000),
    );
    for (const { values, nodata } of this.rasters.values()) {
      const of = values[band] ?? [];
      for (let i = 0; i < of.length; i += every) {
        const v = of[i]!;
        if (valid(v, nodata)) all.push(v);
      }
    }
    all.sort((a, b) => a - b);
    const cut = this.look.stretch === "most" ? 0.02 : 0;
    return all.length === 0
      ? [0, 1]
      : [all[Math.floor(all.length * cut)]!, all[Math.floor((all.length - 1) * (1 - cut))]!];
  }
}

const valid = (v: number, nodata: number | null): boolean => Number.isFinite(v) && v !== nodata;

async function open(href: string, side: number, bands: number[]): Promise<Raster> {
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
    values: [],
    layer: new ImageLayer<ImageStatic>({ zIndex: 5 }),
  };
  raster.values = await read(raster, bands);
  return raster;
}

async function read(r: Raster, bands: number[]): Promise<TypedArray[]> {
  const { width, height } = r;
  return [
    ...((await r.tiff.readRasters({
      samples: bands.map(b => Math.min(b, r.bands - 1)),
      width,
      height,
    })) as unknown as TypedArray[]),
  ];
}

// picture paints values: of one band by a palette, of three as red, green and blue. What has no value is transparent.
function picture({ width, height, nodata, values }: Raster, ranges: Range[], palette: Palette): string {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d")!;
  const image = context.createImageData(width, height);
  const table = tables[palette];
  const level = (band: number, v: number) => {
    const [low, high] = ranges[band]!;
    return Math.round(Math.max(0, Math.min(1, (v - low) / (high - low || 1))) * 255);
  };
  for (let i = 0; i < width * height; i++) {
    const pixel = values.map(band => band[i]!);
    if (!pixel.every(v => valid(v, nodata))) continue;
    const levels = pixel.map((v, band) => level(band, v));
    const [red, green, blue] = levels.length === 3 ? levels : table.slice(levels[0]! * 3, levels[0]! * 3 + 3);
    image.data.set([red!, green!, blue!, 255], i * 4);
  }
  context.putImageData(image, 0, 0);
  return canvas.toDataURL();
}

// tables hold 256 colours for each palette, between the colours at equal distances.
const tables: Record<Palette, number[]> = {
  viridis: between([
    [68, 1, 84],
    [59, 82, 139],
    [33, 145, 140],
    [94, 201, 98],
    [253, 231, 37],
  ]),
  grey: between([
    [0, 0, 0],
    [255, 255, 255],
  ]),
  greens: between([
    [140, 81, 10],
    [223, 194, 125],
    [245, 245, 220],
    [127, 188, 65],
    [0, 90, 50],
  ]),
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
  return `linear-gradient(to right, ${[0, 64, 128, 192, 255].map(i => `rgb(${table.slice(i * 3, i * 3 + 3).join(" ")})`).join(", ")})`;
};

export const isGeoTIFF = (asset: { href: string; type?: string }): boolean =>
  /geotiff|image\/tiff/i.test(asset.type ?? "") || /\.tiff?($|\?)/i.test(asset.href);
