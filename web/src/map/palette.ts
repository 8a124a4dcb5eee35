// The colours that values have.
import type { Class } from "./asset";

export type Palette = "viridis" | "grey" | "greens";

// classColour returns the colour of a class, from its description or by its place among the classes.
export function classColour({ colour }: Class, i: number): [number, number, number] {
  if (colour) return colour;
  const at = ((i * 97) % 256) * 3;
  return tables.viridis.slice(at, at + 3) as [number, number, number];
}

// colourAt returns the colour of a palette at a part of its range, from 0 to 1.
export function colourAt(palette: Palette, part: number): string {
  const at = Math.round(Math.max(0, Math.min(1, part)) * 255) * 3;
  return `rgb(${tables[palette].slice(at, at + 3).join(" ")})`;
}

// tables hold 256 colours for each palette, between the colours at equal distances.
export const tables: Record<Palette, number[]> = {
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
  const colours = [0, 64, 128, 192, 255].map(i => `rgb(${table.slice(i * 3, i * 3 + 3).join(" ")})`);
  return `linear-gradient(to right, ${colours.join(", ")})`;
};
