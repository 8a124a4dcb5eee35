// What the search of the map finds without asking another server: positions, squares of MGRS (such as the tiles of
// Sentinel-2), countries and places.
import { inverse } from "mgrs";
import { countryNames } from "./world";
import type { Box } from "./stage";

export interface Found {
  name: string;
  detail: string; // what kind of thing, or where
  at: Box | { country: string };
}

// Row is a place of places.json.
export type Row = [name: string, others: string, country: string, longitude: number, latitude: number];

export interface Gazetteer {
  rows: Row[];
  plain: string[]; // the names of each row, as they are compared
}

const around = 0.15; // degrees that a place is shown with, to each side

// plain returns a text in lower case without accents.
export const plain = (text: string): string => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase().trim();

export const gazetteer = (rows: Row[]): Gazetteer => ({
  rows,
  plain: rows.map(([name, others]) => plain(others ? `${name},${others}` : name)),
});

const boxAt = (longitude: number, latitude: number): Box => [
  longitude - around,
  latitude - around,
  longitude + around,
  latitude + around,
];

// readPosition reads "51.05, 3.72", latitude first as maps write it, or with letters in either order: "3.72E 51.05N".
export function readPosition(text: string): Found | null {
  const part = String.raw`([NSEW])?\s*(-?\d+(?:\.\d+)?)\s*°?\s*([NSEW])?`;
  const found = new RegExp(`^${part}(?:\\s*[,;]\\s*|\\s+)${part}$`, "i").exec(text.trim().replaceAll("−", "-"));
  if (!found) return null;
  const read = (before: string | undefined, digits: string, after: string | undefined) => {
    const letter = (before ?? after ?? "").toUpperCase();
    return { letter, value: Number(digits) * (letter === "S" || letter === "W" ? -1 : 1) };
  };
  const [first, second] = [read(found[1], found[2]!, found[3]), read(found[4], found[5]!, found[6])];
  const turned = "EW".includes(first.letter || "N") || "NS".includes(second.letter || "E");
  const [latitude, longitude] = turned ? [second.value, first.value] : [first.value, second.value];
  if (Math.abs(latitude) > 90 || Math.abs(longitude) > 180) return null;
  return { name: `${latitude}, ${longitude}`, detail: "position", at: boxAt(longitude, latitude) };
}

// readSquare reads a square of MGRS, such as 31UFS, or T31UFS as Sentinel-2 writes it.
export function readSquare(text: string): Found | null {
  const square = text
    .trim()
    .replaceAll(" ", "")
    .toUpperCase()
    .replace(/^T(?=\d)/, "");
  if (!/^\d{1,2}[C-HJ-NP-X][A-HJ-NP-Z][A-HJ-NP-V](\d\d)*$/.test(square)) return null;
  try {
    return { name: square, detail: "MGRS", at: inverse(square) };
  } catch {
    return null;
  }
}

// search returns what a text may mean: the best first, eight at most.
export function search(text: string, { rows, plain: names }: Gazetteer): Found[] {
  const exact = [readPosition(text), readSquare(text)].filter(f => f !== null);
  const wanted = plain(text);
  if (wanted.length < 2) return exact;
  const countries = countryNames
    .filter(name => ` ${plain(name)}`.includes(` ${wanted}`))
    .map((name): Found => ({ name, detail: "country", at: { country: name } }));
  const [starts, others]: [Found[], Found[]] = [[], []];
  for (let i = 0; i < rows.length && starts.length < most; i++) {
    const [name, , country, longitude, latitude] = rows[i]!;
    const at = names[i]!.indexOf(wanted);
    if (at < 0) continue;
    const begins = at === 0 || !/\p{L}/u.test(names[i]![at - 1]!);
    (begins ? starts : others).push({ name, detail: countryOf(country), at: boxAt(longitude, latitude) });
  }
  return [...exact, ...countries.slice(0, 3), ...starts, ...others].slice(0, most);
}

const most = 8;
const regions = new Intl.DisplayNames("en", { type: "region", fallback: "code" });
const countryOf = (code: string): string => regions.of(code) ?? code;
