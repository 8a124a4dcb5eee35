// What is sent to a service that takes boxes when the area, or a tile, is none.
import type { MultiPolygon, Polygon } from "geojson";
import type { Service } from "../api/wire";
import { boxOf, cornersOf, sizeInKm2 } from "../area/area";
import type { Draft } from "./draft";
import { areaOf } from "./parameters";

type Shape = Polygon | MultiPolygon;

export interface Sent {
  boxes: Shape[];
  drawn: number; // km²
  sent: number; // km², what overlaps twice
  more: number; // the part of drawn that is sent beyond it
}

const noticed = 0.01; // part of the area; what differs less is a box but for rounding

// sentOf returns the boxes that are sent for the area or its tiles, if the service takes boxes and they are none.
export function sentOf(service: Service, { area, split }: Draft, tiles: Shape[]): Sent | null {
  if (!area || areaOf(service.parameters ?? [])?.type !== "bounding-box") return null;
  return sentAsBoxes(split ? tiles : [area.geometry]);
}

// sentAsBoxes returns the boxes around shapes; null if the shapes are boxes.
export function sentAsBoxes(shapes: Shape[]): Sent | null {
  const boxes = shapes.map(s => boxOf(cornersOf(s))?.geometry ?? s);
  const sum = (all: Shape[]) => all.reduce((n, s) => n + sizeInKm2(s), 0);
  const [drawn, sent] = [sum(shapes), sum(boxes)];
  const more = drawn > 0 ? sent / drawn - 1 : 0;
  return more > noticed ? { boxes, drawn, sent, more } : null;
}
