// What the description of a file says of its values, in the words of STAC: bands with names, units and ranges, and
// classes with names and colours.
import type { Asset } from "../api/wire";

export interface Band {
  name: string;
  unit: string;
  low: number | null;
  high: number | null;
}

export interface Class {
  value: number;
  label: string;
  colour: [red: number, green: number, blue: number] | null;
}

export interface Meaning {
  bands: Band[];
  classes: Class[];
}

export const isGeoTIFF = (asset: Pick<Asset, "href" | "type">): boolean =>
  /geotiff|image\/tiff/i.test(asset.type ?? "") || /\.tiff?($|\?)/i.test(asset.href);

type Member = Record<string, unknown>;

const members = (value: unknown): Member[] =>
  Array.isArray(value) ? value.filter((v): v is Member => typeof v === "object" && v !== null) : [];
const text = (value: unknown): string => (typeof value === "string" ? value : "");
const amount = (value: unknown): number | null => (typeof value === "number" && Number.isFinite(value) ? value : null);

// meaningOf reads the description of a file. Bands are in "bands" (STAC 1.1), or in "raster:bands" and "eo:bands".
export function meaningOf(asset: Asset): Meaning {
  const a = asset as Member;
  const raster = members(a["raster:bands"]);
  const named = members(a["bands"]).length > 0 ? members(a["bands"]) : members(a["eo:bands"]);
  const bands = Array.from({ length: Math.max(raster.length, named.length) }, (_, i): Band => {
    const both: Member = { ...named[i], ...raster[i] };
    const range = (both["statistics"] ?? {}) as Member;
    return {
      name: text(named[i]?.["name"]) || text(both["name"]) || text(both["description"]),
      unit: text(both["unit"]),
      low: amount(range["minimum"]),
      high: amount(range["maximum"]),
    };
  });
  const classes = members(a["classification:classes"] ?? (raster[0] ?? named[0])?.["classification:classes"]);
  return { bands, classes: classes.flatMap(classOf) };
}

function classOf(c: Member): Class[] {
  const value = amount(c["value"]);
  if (value === null) return [];
  const [, red, green, blue] = /^#?(\w\w)(\w\w)(\w\w)$/.exec(text(c["color_hint"])) ?? [];
  const label = text(c["title"]) || text(c["name"]) || text(c["description"]) || String(value);
  const colour = red ? ([red, green!, blue!].map(hex => parseInt(hex, 16)) as [number, number, number]) : null;
  return [{ value, label, colour: colour?.every(Number.isFinite) ? colour : null }];
}

const mostBytes = 20_000; // of a file that is read for its values

// mayBeValue reports whether a file may hold numbers that the page shows: JSON or text, and small.
export function mayBeValue(asset: Asset): boolean {
  if (!/json|text\/plain|text\/csv/i.test(asset.type ?? "") || /geo\+json/i.test(asset.type ?? "")) return false;
  return asset.href.startsWith("data:") || (asset["file:size"] ?? Infinity) <= mostBytes;
}

// textOf returns the content of a small file. The page may not request data: addresses, so those are decoded here.
export async function textOf(href: string): Promise<string> {
  const data = /^data:([^,]*),(.*)$/s.exec(href);
  if (!data) {
    const response = await fetch(href);
    if (!response.ok) throw new Error(String(response.status));
    return response.text();
  }
  const plain = decodeURIComponent(data[2]!);
  if (!data[1]!.endsWith(";base64")) return plain;
  return new TextDecoder().decode(Uint8Array.from(atob(plain), c => c.charCodeAt(0)));
}

export type Value = number | string | boolean;

// valuesIn returns the values in the text of a file, under the file's name, or of a JSON object under that and the
// names of its members.
export function valuesIn(name: string, content: string): Map<string, Value> {
  const found = new Map<string, Value>();
  const add = (key: string, value: unknown, deep: number) => {
    if (typeof value === "number" || typeof value === "string" || typeof value === "boolean") found.set(key, value);
    else if (typeof value === "object" && value !== null && deep < 3)
      for (const [k, v] of Object.entries(value)) add(deep === 0 ? k : `${key}.${k}`, v, deep + 1);
  };
  let parsed: unknown;
  try {
    parsed = JSON.parse(content);
  } catch {
    parsed = content.trim();
  }
  if (typeof parsed === "object") add("", parsed, 0);
  else add(name, parsed, 1);
  return found;
}
