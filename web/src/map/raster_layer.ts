// GeoTIFFs on the map: read at the size of a preview, with one stretch for all, so that tiles can be compared.
import ImageLayer from "ol/layer/Image";
import { get as projectionOf, transform } from "ol/proj";
import ImageStatic from "ol/source/ImageStatic";
import { fromUrl, type GeoTIFF, type GeoTIFFImage, type TypedArray } from "geotiff";
import { texts } from "../texts";
import type { Band, Class, Meaning } from "./asset";
import { classColour, tables, type Palette } from "./palette";
import type { Stage } from "./stage";

// Stretch is which values have different colours: those that the description of the files names (without one, most),
// those between the 2nd and the 98th percentile, or all.
export type Stretch = "meant" | "most" | "all";

export interface Look {
  bands: number[]; // from 0: one in the colours of the palette, or three as red, green and blue
  palette: Palette;
  stretch: Stretch;
  low: number | null; // of one band; null: by the stretch
  high: number | null;
}

export const initialLook: Look = { bands: [0], palette: "viridis", stretch: "meant", low: null, high: null };

type Range = [low: number, high: number];

// Picture is a file to be shown.
export interface Picture {
  name: string;
  href: string;
  meaning: Meaning;
}

// Sample is the values of a raster at a place; null: no data.
export interface Sample {
  name: string;
  values: (number | null)[];
}

interface Raster {
  tiff: GeoTIFF;
  names: string[]; // of the bands, as the file says
  extent: number[];
  projection: string;
  bands: number;
  nodata: number | null;
  width: number;
  height: number;
  values: TypedArray[];
  read: number[]; // the bands of the values; not those of the look while others are read
  layer: ImageLayer<ImageStatic>;
}

const pixelsOfAll = 4_000_000; // of all rasters together

const drawnWhole = 1_500; // ms between two adaptations of the colours to all values, while files are read

export class RasterLayer {
  private readonly rasters = new Map<string, Raster>();
  private meaning: Meaning = { bands: [], classes: [] };
  private opacity = 1;
  private wanted: (name: string) => boolean = () => true;
  private fittedAt = 0;
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

  // bandsMeant returns what is known of the bands: what the description of the files says, or else the files.
  get bandsMeant(): Band[] {
    const [first] = this.rasters.values();
    return Array.from({ length: this.rasters.size > 0 ? this.bands : 0 }, (_, i) => {
      const meant = this.meaning.bands[i] ?? { name: "", unit: "", low: null, high: null };
      return { ...meant, name: meant.name || first?.names[i] || "" };
    });
  }

  get classes(): Class[] {
    return this.look.bands.length === 1 ? this.meaning.classes : [];
  }

  // add reads a raster and shows it. expected is how many will be shown together. While many are read, the colours are
  // adapted to all values now and then.
  async add({ name, href, meaning }: Picture, expected: number): Promise<void> {
    const raster = await open(href, Math.sqrt(pixelsOfAll / Math.max(1, expected)));
    await this.readBands(raster);
    if (this.rasters.size === 0) this.meaning = meaning;
    this.remove(name);
    raster.layer.setOpacity(this.opacity);
    raster.layer.setVisible(this.wanted(name));
    this.rasters.set(name, raster);
    this.stage.add(raster.layer);
    if (performance.now() - this.fittedAt > drawnWhole) this.draw();
    else this.paint(raster);
  }

  setOpacity(opacity: number): void {
    this.opacity = opacity;
    for (const r of this.rasters.values()) r.layer.setOpacity(opacity);
  }

  // only hides the rasters that are not wanted. All keep one range of colours, so that dates can be compared.
  only(wanted: (name: string) => boolean): void {
    this.wanted = wanted;
    for (const [name, r] of this.rasters) r.layer.setVisible(wanted(name));
  }

  // samplesAt reads the values of all visible rasters at a place of the map, at their full resolution.
  async samplesAt(coordinate: number[]): Promise<Sample[]> {
    const all: Sample[] = [];
    for (const [name, r] of this.rasters) {
      const [x = 0, y = 0] = transform(coordinate, "EPSG:3857", r.projection);
      const [west = 0, south = 0, east = 0, north = 0] = r.extent;
      if (!r.layer.getVisible() || x < west || x >= east || y <= south || y > north) continue;
      const image = await r.tiff.getImage();
      const column = Math.floor(((x - west) / (east - west)) * image.getWidth());
      const row = Math.floor(((north - y) / (north - south)) * image.getHeight());
      const read = await image.readRasters({ window: [column, row, column + 1, row + 1] });
      const values = [...(read as unknown as TypedArray[])].map(band => Number(band[0]));
      all.push({ name, values: values.map(v => (valid(v, r.nodata) ? v : null)) });
    }
    return all;
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
    const { bands } = this.look;
    const chosen = look.bands && look.bands.join() !== bands.join() ? look.bands : bands;
    this.look = { ...this.look, ...look, bands: chosen };
    if (chosen !== bands) await Promise.all([...this.rasters.values()].map(r => this.readBands(r)));
    if (this.look.bands === chosen) this.draw(); // else it is drawn when the bands chosen since are read
  }

  // readBands reads the bands of the look, and anew if others are chosen meanwhile.
  private async readBands(raster: Raster): Promise<void> {
    let bands: number[];
    let values: TypedArray[];
    do {
      bands = this.look.bands;
      values = await read(raster, bands);
    } while (this.look.bands !== bands);
    Object.assign(raster, { values, read: bands });
  }

  // draw colours all rasters by the same ranges of values.
  draw(): void {
    this.ranges = this.look.bands.map((_, i) => this.fitted(i));
    const [first] = this.ranges;
    if (this.ranges.length === 1) this.ranges[0] = [this.look.low ?? first![0], this.look.high ?? first![1]];
    this.range = this.ranges[0] ?? [0, 1];
    this.fittedAt = performance.now();
    for (const r of this.rasters.values()) this.paint(r);
  }

  private ranges: Range[] = [[0, 1]];

  private paint(r: Raster): void {
    if (r.read !== this.look.bands) return; // it is drawn when it is read
    const url = picture(r, this.ranges, this.look.palette, this.classes);
    r.layer.setSource(new ImageStatic({ url, imageExtent: r.extent, projection: r.projection, interpolate: false }));
  }

  // fitted returns the range of the values of a shown band: what its description says, or by the stretch.
  private fitted(band: number): Range {
    const meant = this.meaning.bands[this.look.bands[band] ?? 0];
    if (this.look.stretch === "meant" && meant?.low != null && meant.high != null) return [meant.low, meant.high];
    const all: number[] = [];
    const every = Math.max(
      1,
      Math.floor([...this.rasters.values()].reduce((n, r) => n + r.width * r.height, 0) / 100_000),
    );
    for (const { values, nodata, read } of this.rasters.values()) {
      const of = (read === this.look.bands && values[band]) || [];
      for (let i = 0; i < of.length; i += every) {
        const v = of[i]!;
        if (valid(v, nodata)) all.push(v);
      }
    }
    all.sort((a, b) => a - b);
    const cut = this.look.stretch === "all" ? 0 : 0.02;
    return all.length === 0
      ? [0, 1]
      : [all[Math.floor(all.length * cut)]!, all[Math.floor((all.length - 1) * (1 - cut))]!];
  }
}

const valid = (v: number, nodata: number | null): boolean => Number.isFinite(v) && v !== nodata;

async function open(href: string, side: number): Promise<Raster> {
  const tiff = await fromUrl(href);
  const image = await tiff.getImage();
  const keys = image.getGeoKeys();
  const projection = `EPSG:${keys?.ProjectedCSTypeGeoKey ?? keys?.GeographicTypeGeoKey ?? 4326}`;
  if (!projectionOf(projection)) throw new Error(texts.results.unreadable(projection));
  const [width, height] = [image.getWidth(), image.getHeight()];
  const scale = Math.min(1, Math.min(1024, side) / Math.max(width, height));
  return {
    tiff,
    names: await namesIn(image),
    extent: image.getBoundingBox(),
    projection,
    bands: image.getSamplesPerPixel(),
    nodata: image.getGDALNoData(),
    width: Math.max(1, Math.round(width * scale)),
    height: Math.max(1, Math.round(height * scale)),
    values: [],
    read: [],
    layer: new ImageLayer<ImageStatic>({ zIndex: 5 }),
  };
}

// namesIn returns the names of the bands that GDAL has written into a file.
async function namesIn(image: GeoTIFFImage): Promise<string[]> {
  const all = Array.from({ length: image.getSamplesPerPixel() }, (_, i) => image.getGDALMetadata(i));
  return (await Promise.all(all)).map(m => String(m?.["DESCRIPTION"] ?? ""));
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

// picture paints values: of one band by its classes or a palette, of three as red, green and blue. What has no value
// is transparent.
function picture(r: Raster, ranges: Range[], palette: Palette, classes: Class[]): string {
  const { width, height, nodata, values } = r;
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d")!;
  const image = context.createImageData(width, height);
  const table = tables[palette];
  const byValue = new Map(classes.map((c, i) => [c.value, classColour(c, i)]));
  const level = (band: number, v: number) => {
    const [low, high] = ranges[band]!;
    return Math.round(Math.max(0, Math.min(1, (v - low) / (high - low || 1))) * 255);
  };
  for (let i = 0; i < width * height; i++) {
    const pixel = values.map(band => band[i]!);
    if (!pixel.every(v => valid(v, nodata))) continue;
    const levels = pixel.map((v, band) => level(band, v));
    const own = byValue.get(pixel[0]!);
    if (own) {
      image.data.set([...own, 255], i * 4);
      continue;
    }
    const [red, green, blue] = levels.length === 3 ? levels : table.slice(levels[0]! * 3, levels[0]! * 3 + 3);
    image.data.set([red!, green!, blue!, 255], i * 4);
  }
  context.putImageData(image, 0, 0);
  return canvas.toDataURL();
}
