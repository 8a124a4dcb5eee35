// How statuses look: a colour, and a pattern for those who do not tell the colours apart.
import type { Status } from "./api/wire";

export const statuses: Status[] = [
  "running",
  "queued",
  "submitted",
  "created",
  "finished",
  "failed",
  "canceled",
  "unknown",
];
export const ended = (status: Status): boolean => status === "finished" || status === "failed" || status === "canceled";

// Counts is how many jobs have which status.
export type Counts = Partial<Record<Status, number>>;

// totals returns how many jobs there are, and how many have ended.
export function totals(counts: Counts): { all: number; done: number } {
  const sum = (of: Status[]) => of.reduce((n, s) => n + (counts[s] ?? 0), 0);
  return { all: sum(statuses), done: sum(statuses.filter(ended)) };
}

const patterns: Record<Status, "solid" | "dots" | "rising" | "falling" | "cross" | "lines" | "empty" | "grid"> = {
  created: "empty",
  submitted: "dots",
  queued: "rising",
  running: "falling",
  finished: "solid",
  failed: "cross",
  canceled: "lines",
  unknown: "grid",
};

// colour returns the colour of a status in the present colour scheme.
export const colour = (status: Status): string =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${status}`).trim();

const cell = 8; // CSS pixels of a pattern

// fillOf returns the fill of a status for a canvas with a pixel ratio.
export function fillOf(status: Status, ratio: number): CanvasPattern | string {
  const tile = document.createElement("canvas");
  tile.width = tile.height = Math.round(cell * ratio);
  const context = tile.getContext("2d");
  if (!context) return colour(status);
  context.scale(tile.width / cell, tile.height / cell);
  paint(context, status);
  const pattern = context.createPattern(tile, "repeat");
  return pattern ?? colour(status);
}

function paint(context: CanvasRenderingContext2D, status: Status): void {
  const strong = colour(status);
  context.fillStyle = context.strokeStyle = strong;
  context.globalAlpha = patterns[status] === "solid" ? 0.72 : patterns[status] === "empty" ? 0.12 : 0.25;
  context.fillRect(0, 0, cell, cell);
  context.globalAlpha = 1;
  context.lineWidth = 1.6;
  for (const [x1, y1, x2, y2] of strokes[patterns[status]]) {
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x2, y2);
    context.stroke();
  }
  if (patterns[status] === "dots") context.fillRect(3, 3, 2, 2);
}

type Stroke = [number, number, number, number];
const rising: Stroke[] = [
  [-2, 2, 2, -2],
  [-2, 10, 10, -2],
  [6, 10, 10, 6],
];
const falling: Stroke[] = [
  [-2, 6, 2, 10],
  [-2, -2, 10, 10],
  [6, -2, 10, 2],
];
const strokes: Record<(typeof patterns)[Status], Stroke[]> = {
  solid: [],
  empty: [],
  dots: [],
  rising,
  falling,
  cross: [...rising, ...falling],
  lines: [[0, 4, 8, 4]],
  grid: [
    [0, 4, 8, 4],
    [4, 0, 4, 8],
  ],
};

// onSchemeChange calls back when the colours have changed.
export function onSchemeChange(then: () => void): () => void {
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", then);
  return () => scheme.removeEventListener("change", then);
}
