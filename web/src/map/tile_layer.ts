// The tiles of a task, filled by their status. They are painted on a canvas of their own: as features of the map, ten
// thousand tiles took 300 ms for each change.
import type { Geometry, Position } from "geojson";
import Layer from "ol/layer/Layer";
import type { FrameState } from "ol/Map";
import { getTransform } from "ol/proj";
import type { Status, Tile } from "../api/wire";
import { colour, fillOf, statuses } from "../status";
import { colourAt } from "./palette";
import { cssColour, type Stage } from "./stage";

const project = getTransform("EPSG:4326", "EPSG:3857")!;
const world = 2 * 20_037_508.342789244; // metres around the equator of the map
const atOnce = 500; // tiles in one path
const pointSize = 8; // CSS pixels

interface Shape {
  id: number;
  name: string;
  status: Status;
  rings: number[][]; // flat coordinates of the map
  box: [west: number, south: number, east: number, north: number];
}

export class TileLayer {
  private shapes = new Map<number, Shape>();
  private readonly canvas = document.createElement("canvas");
  private readonly layer: Layer;
  private readonly looks = new Map<Status, { fill: CanvasPattern | string; line: string }>();
  private colours: ReadonlyMap<number, string> | null = null; // of tiles with a value
  private mark: number | null = null;
  private markColour = "";

  constructor(stage: Stage, picked: (id: number) => void) {
    // OpenLayers unsets what style sheets say
    Object.assign(this.canvas.style, { position: "absolute", inset: "0", width: "100%", height: "100%" });
    this.layer = new Layer({
      zIndex: 10,
      render: frame => {
        if (frame) this.paint(frame);
        return this.canvas;
      },
    });
    stage.add(this.layer);
    stage.onRestyle(() => {
      for (const s of statuses) this.looks.set(s, { fill: fillOf(s, devicePixelRatio), line: colour(s) });
      this.markColour = cssColour("--ink");
      this.layer.changed();
    });
    stage.map.on("click", event => {
      const found = this.at(event.coordinate);
      if (found) picked(found.id);
    });
    stage.map.on("pointermove", event => {
      if (event.dragging) return;
      const [found, element] = [this.at(event.coordinate), stage.map.getTargetElement()!];
      element.style.cursor = found ? "pointer" : "";
      element.title = found?.name ?? "";
    });
  }

  // show puts tiles on the map. Tiles without a place are left out.
  show(tiles: Tile[], status: (tile: Tile) => Status): void {
    this.shapes = new Map(tiles.filter(t => t.geometry).map(t => [t.id, shapeOf(t, status(t))]));
    this.layer.changed();
  }

  // update changes statuses, and draws once if any differs.
  update(changes: Iterable<[number, Status]>): void {
    let changed = false;
    for (const [id, status] of changes) {
      const shape = this.shapes.get(id);
      if (!shape || shape.status === status) continue;
      shape.status = status;
      changed = true;
    }
    if (changed) this.layer.changed();
  }

  select(id: number | null): void {
    this.mark = id;
    this.layer.changed();
  }

  // colourBy gives tiles the colour of their value, in place of that of their status; null ends that.
  colourBy(values: ReadonlyMap<number, number> | null): void {
    if (!values && !this.colours) return;
    const [low, high] = values ? [Math.min(...values.values()), Math.max(...values.values())] : [0, 0];
    const part = (v: number) => (high > low ? (v - low) / (high - low) : 0.5);
    this.colours = values && new Map([...values].map(([id, v]) => [id, colourAt("viridis", part(v))]));
    this.layer.changed();
  }

  // fade lets results below show.
  fade(on: boolean): void {
    this.layer.setOpacity(on ? 0.35 : 1);
  }

  private at([x = 0, y = 0]: number[]): Shape | undefined {
    const turned = x - world * Math.floor((x + world / 2) / world);
    return [...this.shapes.values()]
      .reverse()
      .find(
        ({ box: [w, s, e, n], rings }) => turned >= w && turned <= e && y >= s && y <= n && contains(rings, turned, y),
      );
  }

  private paint(frame: FrameState): void {
    const ratio = frame.pixelRatio;
    const [width = 0, height = 0] = frame.size;
    this.canvas.width = Math.round(width * ratio); // this clears the canvas
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.opacity = String(this.layer.getOpacity());
    const context = this.canvas.getContext("2d");
    if (!context) return;
    const [a = 1, , , d = -1, e = 0, f = 0] = frame.coordinateToPixelTransform;
    const [west = 0, south = 0, east = 0, north = 0] = frame.extent ?? [];
    const seen = [...this.shapes.values()].filter(({ box }) => box[1] <= north && box[3] >= south);
    const first = Math.ceil((west - world / 2) / world); // copies of the world in view
    const last = Math.floor((east + world / 2) / world);
    for (let copy = first; copy <= last; copy++) {
      const shift = copy * world;
      const inView = seen.filter(({ box }) => box[0] + shift <= east && box[2] + shift >= west);
      const at = { x: (x: number) => (a * (x + shift) + e) * ratio, y: (y: number) => (d * y + f) * ratio };
      for (const s of statuses)
        this.paintStatus(
          context,
          inView.filter(({ status, id }) => status === s && !this.colours?.has(id)),
          s,
          at,
          ratio,
        );
      for (const shape of this.colours ? inView : []) {
        const own = this.colours!.get(shape.id);
        if (!own) continue;
        context.fillStyle = own;
        context.strokeStyle = this.markColour;
        context.lineWidth = ratio / 2;
        trace(context, [shape], at, ratio);
        context.fill();
        context.stroke();
      }
      const marked = inView.filter(({ id }) => id === this.mark);
      context.strokeStyle = this.markColour;
      context.lineWidth = 3 * ratio;
      trace(context, marked, at, ratio);
      context.stroke();
    }
  }

  private paintStatus(
    context: CanvasRenderingContext2D,
    shapes: Shape[],
    status: Status,
    at: Transform,
    ratio: number,
  ): void {
    const look = this.looks.get(status);
    if (!look) return;
    context.fillStyle = look.fill;
    context.strokeStyle = look.line;
    context.lineWidth = ratio;
    for (let i = 0; i < shapes.length; i += atOnce) {
      trace(context, shapes.slice(i, i + atOnce), at, ratio);
      context.fill();
      context.stroke();
    }
  }
}

interface Transform {
  x: (x: number) => number; // pixels of the canvas
  y: (y: number) => number;
}

function trace(context: CanvasRenderingContext2D, shapes: Shape[], at: Transform, ratio: number): void {
  context.beginPath();
  for (const { rings } of shapes) {
    for (const ring of rings) {
      const [x, y] = [at.x(ring[0]!), at.y(ring[1]!)];
      if (ring.length === 2)
        context.rect(x - (pointSize / 2) * ratio, y - (pointSize / 2) * ratio, pointSize * ratio, pointSize * ratio);
      context.moveTo(x, y);
      for (let i = 2; i < ring.length; i += 2) context.lineTo(at.x(ring[i]!), at.y(ring[i + 1]!));
    }
  }
}

function shapeOf({ id, geometry, properties: { name = "" } }: Tile, status: Status): Shape {
  const rings = ringsOf(geometry!)
    .filter(ring => ring.length > 0)
    .map(ring =>
      project(
        ring.flatMap(([x = 0, y = 0]) => [x, y]),
        undefined,
        2,
      ),
    );
  const box: Shape["box"] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const ring of rings) {
    for (let i = 0; i < ring.length; i += 2) {
      box[0] = Math.min(box[0], ring[i]!);
      box[1] = Math.min(box[1], ring[i + 1]!);
      box[2] = Math.max(box[2], ring[i]!);
      box[3] = Math.max(box[3], ring[i + 1]!);
    }
  }
  return { id, name, status, rings, box };
}

// ringsOf returns the lines of a geometry; a point is a line of one position.
function ringsOf(g: Geometry): Position[][] {
  switch (g.type) {
    case "Polygon":
    case "MultiLineString":
      return g.coordinates;
    case "MultiPolygon":
      return g.coordinates.flat();
    case "LineString":
      return [g.coordinates];
    case "Point":
      return [[g.coordinates]];
    case "MultiPoint":
      return g.coordinates.map(p => [p]);
    case "GeometryCollection":
      return g.geometries.flatMap(ringsOf);
  }
}

// contains reports whether a position is inside an odd number of rings, or the shape has no inside.
function contains(rings: number[][], x: number, y: number): boolean {
  let inside = false;
  for (const ring of rings) {
    if (ring.length < 8) return true;
    for (let i = 0, j = ring.length - 2; i < ring.length; j = i, i += 2) {
      const [x1, y1, x2, y2] = [ring[i]!, ring[i + 1]!, ring[j]!, ring[j + 1]!];
      if (y1 > y !== y2 > y && x < ((x2 - x1) * (y - y1)) / (y2 - y1) + x1) inside = !inside;
    }
  }
  return inside;
}
