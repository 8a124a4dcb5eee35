// The tiles of a task, filled by their status.
import Feature from "ol/Feature";
import GeoJSON from "ol/format/GeoJSON";
import VectorLayer from "ol/layer/Vector";
import VectorSource from "ol/source/Vector";
import { Fill, Stroke, Style } from "ol/style";
import type { Status, Tile } from "../api/wire";
import { colour, fillOf, statuses } from "../status";
import { cssColour, type Stage } from "./stage";

const geojson = new GeoJSON({ dataProjection: "EPSG:4326", featureProjection: "EPSG:3857" });

export class TileLayer {
  private readonly source = new VectorSource();
  private readonly layer: VectorLayer;
  private readonly styles = new Map<Status, Style>();
  private readonly marked = new Style();
  private mark: number | null = null;

  constructor(stage: Stage, picked: (id: number) => void) {
    this.layer = new VectorLayer({
      source: this.source,
      zIndex: 10,
      updateWhileInteracting: false,
      style: (feature) => {
        const style = this.styles.get(feature.get("status") as Status);
        return style && feature.getId() === this.mark ? [style, this.marked] : style;
      },
    });
    stage.add(this.layer);
    stage.onRestyle(() => {
      for (const s of statuses) {
        this.styles.set(s, new Style({ fill: new Fill({ color: fillOf(s, devicePixelRatio) }), stroke: new Stroke({ color: colour(s), width: 1 }) }));
      }
      this.marked.setStroke(new Stroke({ color: cssColour("--ink"), width: 3 }));
      this.marked.setZIndex(1);
      this.layer.changed();
    });
    stage.map.on("click", (event) => {
      const found = stage.map.forEachFeatureAtPixel(event.pixel, (f) => f, { layerFilter: (l) => l === this.layer });
      if (found) picked(found.getId() as number);
    });
    stage.map.on("pointermove", (event) => {
      if (event.dragging) return;
      stage.map.getTargetElement()!.style.cursor = stage.map.hasFeatureAtPixel(event.pixel, { layerFilter: (l) => l === this.layer }) ? "pointer" : "";
    });
  }

  // show puts tiles on the map. Tiles without a place are left out.
  show(tiles: Tile[], status: (tile: Tile) => Status): void {
    this.source.clear(true);
    this.source.addFeatures(tiles.filter((t) => t.geometry).map((t) => {
      const feature = new Feature({ geometry: geojson.readGeometry(t.geometry!)!, status: status(t) });
      feature.setId(t.id);
      return feature;
    }));
  }

  // update changes statuses, and draws once.
  update(changes: Iterable<[number, Status]>): void {
    for (const [id, status] of changes) this.source.getFeatureById(id)?.set("status", status, true);
    this.source.changed();
  }

  select(id: number | null): void {
    this.mark = id;
    this.layer.changed();
  }

  // fade lets results below show.
  fade(on: boolean): void {
    this.layer.setOpacity(on ? 0.35 : 1);
  }
}
