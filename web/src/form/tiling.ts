// How the area of a run is split into tiles.
import type { FeatureCollection } from "geojson";
import type { TileRequest } from "../api/wire";
import { texts } from "../texts";
import { ownCells, type Draft, type OwnCells } from "./draft";

// tilesRequest returns the request for the tiles of a draft; null if it is not split, or something is missing.
export function tilesRequest({
  split,
  area,
  grid,
  cells,
  minArea,
  merge,
  buffer,
  fromCentre,
}: Draft): TileRequest | null {
  if (!split || !area || grid === "" || (grid === ownCells && !cells)) return null;
  const least = Number(minArea) * 1e6 || 0;
  const wider = grid === ownCells ? 0 : Number(buffer) || 0; // own cells have no buffer
  return {
    aoi: area.geometry,
    ...(grid === ownCells ? { cells: cells!.grid } : { grid }),
    ...(least !== 0 && { min_area: least, ...(merge && { merge: true as const }) }),
    ...(wider !== 0 && { buffer: wider }),
    ...(fromCentre && { order: "centre" as const }),
  };
}

// tileFlags returns the flags of the command line for the same tiles.
export function tileFlags(draft: Draft): string[] {
  const request = tilesRequest(draft);
  if (!request) return [];
  return [
    `--grid ${request.grid ?? "cells.geojson"}`,
    ...(request.min_area ? [`--min-area ${request.min_area}`] : []),
    ...(request.merge ? ["--merge"] : []),
    ...(request.buffer ? [`--buffer ${request.buffer}`] : []),
    ...(request.order ? [`--order ${request.order}`] : []),
  ];
}

// readCells reads a grid from a file. The broker checks its cells. It throws an Error whose message ends the sentence
// "FILE cannot be used: …".
export async function readCells(file: File): Promise<OwnCells> {
  let grid: Partial<FeatureCollection> | null;
  try {
    grid = JSON.parse(await file.text()) as Partial<FeatureCollection> | null;
  } catch {
    throw new Error(texts.form.badJSON);
  }
  if (grid?.type !== "FeatureCollection" || !Array.isArray(grid.features)) throw new Error(texts.split.noCells);
  return { file: file.name, grid: grid as FeatureCollection };
}
