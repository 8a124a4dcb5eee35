// The area of a run on the map: drawing, editing, and the tiles it is split into.
import Feature from "ol/Feature";
import GeoJSON from "ol/format/GeoJSON";
import DragBox from "ol/interaction/DragBox";
import Draw, { createBox } from "ol/interaction/Draw";
import type Interaction from "ol/interaction/Interaction";
import Modify from "ol/interaction/Modify";
import VectorLayer from "ol/layer/Vector";
import VectorSource from "ol/source/Vector";
import type Geometry from "ol/geom/Geometry";
import { Circle, Fill, Stroke, Style } from "ol/style";
import type { MultiPolygon, Polygon } from "geojson";
import { cssColour, type Stage } from "./stage";

const geojson = new GeoJSON({ dataProjection: "EPSG:4326", featureProjection: "EPSG:3857" });

type Shape = Polygon | MultiPolygon;

export class AreaLayer {
  private readonly area = new VectorSource();
  private readonly tiles = new VectorSource();
  private drawing: Interaction[] = [];

  constructor(
    private readonly stage: Stage,
    private readonly changed: (geometry: Polygon | MultiPolygon, drawn: "box" | "polygon" | "edited") => void,
    private readonly stopped: () => void,
    editable = true,
  ) {
    const areaLayer = new VectorLayer({ source: this.area, zIndex: 20 });
    const tileLayer = new VectorLayer({ source: this.tiles, zIndex: 10 });
    stage.add(areaLayer);
    stage.add(tileLayer);
    stage.onRestyle(() => {
      const accent = cssColour("--accent");
      const stroke = new Stroke({ color: accent, width: 2.5 });
      areaLayer.setStyle(new Style({ fill: new Fill({ color: alpha(accent, 0.08) }), stroke }));
      const warn = cssColour("--warn");
      const whole = new Style({
        fill: new Fill({ color: alpha(accent, 0.14) }),
        stroke: new Stroke({ color: accent, width: 1 }),
      });
      const sliver = new Style({
        fill: new Fill({ color: alpha(warn, 0.3) }),
        stroke: new Stroke({ color: warn, width: 2, lineDash: [4, 3] }),
        zIndex: 1,
      });
      const box = new Style({ stroke: new Stroke({ color: warn, width: 1.5, lineDash: [2, 4] }), zIndex: 2 });
      tileLayer.setStyle(feature => (feature.get("sent") ? box : feature.get("sliver") ? sliver : whole));
    });
    if (!editable) return;
    const modify = new Modify({ source: this.area });
    modify.on("modifyend", () => this.report("edited"));
    stage.map.addInteraction(modify);
    document.addEventListener("keydown", this.onKey);
  }

  private readonly onKey = (event: KeyboardEvent) => {
    if (event.key === "Escape" && this.drawing.length > 0) this.start(null);
  };

  // start begins to draw a new area, in place of the present one; null stops. A box is dragged, or has its corners
  // clicked.
  start(kind: "box" | "polygon" | null): void {
    this.drawing.forEach(i => this.stage.map.removeInteraction(i));
    this.drawing = [];
    if (!kind) {
      this.stopped();
      return;
    }
    if (kind === "box") {
      const drag = new DragBox({ className: "dragged-box" });
      drag.on("boxend", () => this.drawn(drag.getGeometry(), kind));
      this.drawing.push(drag);
    }
    const accent = cssColour("--accent");
    const draw = new Draw({
      type: kind === "box" ? "Circle" : "Polygon",
      ...(kind === "box" ? { geometryFunction: createBox() } : {}),
      style: new Style({
        fill: new Fill({ color: alpha(accent, 0.14) }),
        stroke: new Stroke({ color: accent, width: 2, lineDash: [6, 4] }),
        image: new Circle({ radius: 5, fill: new Fill({ color: accent }) }),
      }),
    });
    draw.on("drawend", event => this.drawn(event.feature.getGeometry()!, kind));
    this.drawing.push(draw);
    this.drawing.forEach(i => this.stage.map.addInteraction(i));
  }

  private drawn(geometry: Geometry, kind: "box" | "polygon"): void {
    this.area.clear(true);
    this.area.addFeature(new Feature(geometry));
    queueMicrotask(() => {
      this.start(null);
      this.report(kind);
    });
  }

  private report(how: "box" | "polygon" | "edited"): void {
    const geometry = this.area.getFeatures()[0]?.getGeometry();
    if (geometry) this.changed(geojson.writeGeometryObject(geometry, { decimals: 6 }) as Polygon | MultiPolygon, how);
  }

  showArea(geometry: Polygon | MultiPolygon | null): void {
    this.area.clear(true);
    if (geometry) this.area.addFeature(new Feature(geojson.readGeometry(geometry)!));
    else this.area.changed();
  }

  // showTiles shows the tiles of the area, those with the indexes slivers as such, and the boxes that are sent instead.
  showTiles(geometries: Shape[], slivers: number[], sent: Shape[] = []): void {
    const small = new Set(slivers);
    const feature = (g: Shape, properties: object) =>
      new Feature({ geometry: geojson.readGeometry(g)!, ...properties });
    this.tiles.clear(true);
    this.tiles.addFeatures(geometries.map((g, i) => feature(g, { sliver: small.has(i) })));
    this.tiles.addFeatures(sent.map(g => feature(g, { sent: true })));
    this.tiles.changed();
  }

  dispose(): void {
    document.removeEventListener("keydown", this.onKey);
  }
}

// alpha returns a colour of the style sheet (#rrggbb) with an opacity.
const alpha = (colour: string, opacity: number): string =>
  colour +
  Math.round(opacity * 255)
    .toString(16)
    .padStart(2, "0");
