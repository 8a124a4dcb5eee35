// The map of a view: outlines of the countries or the configured base map, and what the view puts on it.
import OLMap from "ol/Map";
import View from "ol/View";
import { defaults as interactions } from "ol/interaction/defaults";
import type BaseLayer from "ol/layer/Base";
import Graticule from "ol/layer/Graticule";
import TileLayer from "ol/layer/Tile";
import VectorLayer from "ol/layer/Vector";
import { fromLonLat, transformExtent } from "ol/proj";
import VectorSource from "ol/source/Vector";
import XYZ from "ol/source/XYZ";
import { Fill, Stroke, Style, Text } from "ol/style";
import "ol/ol.css";
import { settings } from "../api/session";
import { onSchemeChange } from "../status";
import { outlines } from "./world";

const detailBelow = 6_000; // metres in a pixel, from which on the detailed outlines are shown

export const cssColour = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export type Box = [west: number, south: number, east: number, north: number];

export class Stage {
  readonly map: OLMap;
  private readonly outline = new VectorLayer({ source: new VectorSource(), zIndex: 0 });
  private readonly stops: (() => void)[] = [];
  private readonly restyles: (() => void)[] = [];

  constructor(target: HTMLElement) {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.map = new OLMap({
      target,
      controls: [],
      layers: [this.outline],
      interactions: interactions({ onFocusOnly: false }),
      view: new View({
        center: fromLonLat([10, 40]),
        zoom: 2.5,
        minZoom: 1,
        maxZoom: 19,
        enableRotation: false,
        multiWorld: true,
      }),
    });
    this.animated = !still;
    const base = settings.value.base_map;
    if (base)
      this.map.addLayer(
        new TileLayer({ source: new XYZ({ url: base.url, attributions: base.attribution }), zIndex: 1 }),
      );
    this.onRestyle(() =>
      this.outline.setStyle(
        new Style({
          fill: new Fill({ color: cssColour("--land") }),
          stroke: new Stroke({ color: cssColour("--coast"), width: 1 }),
        }),
      ),
    );
    this.showGraticule();
    this.stops.push(onSchemeChange(() => this.restyles.forEach(restyle => restyle())));
    void this.showOutlines(false);
    this.map.getView().on("change:resolution", () => {
      if ((this.map.getView().getResolution() ?? detailBelow) < detailBelow && !this.detailed)
        void this.showOutlines(true);
    });
  }

  private readonly animated: boolean;
  private detailed = false;

  private async showOutlines(detailed: boolean): Promise<void> {
    if (settings.value.base_map) return;
    this.detailed = detailed;
    const features = await outlines(detailed);
    if (this.detailed !== detailed) return;
    const source = this.outline.getSource()!;
    source.clear(true);
    source.addFeatures(features);
  }

  // showGraticule draws the lines of whole degrees with their names, since the outlines alone do not tell where a small area is.
  private showGraticule(): void {
    let lines: Graticule | undefined;
    this.onRestyle(() => {
      if (lines) this.map.removeLayer(lines);
      const label = (align: "left" | "center") =>
        new Text({
          textAlign: align,
          textBaseline: "bottom",
          font: "12px system-ui, sans-serif",
          fill: new Fill({ color: cssColour("--soft") }),
          stroke: new Stroke({ color: cssColour("--land"), width: 3 }),
        });
      lines = new Graticule({
        zIndex: 2,
        showLabels: true,
        wrapX: true,
        strokeStyle: new Stroke({ color: cssColour("--coast") + "66", width: 1 }),
        lonLabelStyle: label("center"),
        latLabelStyle: label("left"),
        lonLabelPosition: 0.01,
        latLabelPosition: 0.01,
      });
      this.map.addLayer(lines);
    });
  }

  // onRestyle calls now, and whenever the colours of the page change.
  onRestyle(restyle: () => void): void {
    this.restyles.push(restyle);
    restyle();
  }

  add(layer: BaseLayer): void {
    this.map.addLayer(layer);
  }

  // fit shows a box in degrees, as far as the projection of the map shows it: to 85 degrees. West may be larger than east.
  fit([west, south, east, north]: Box): void {
    const shown = (latitude: number) => Math.max(-85, Math.min(85, latitude));
    const box = transformExtent(
      [west, shown(south), west > east ? east + 360 : east, shown(north)],
      "EPSG:4326",
      "EPSG:3857",
    );
    this.map.getView().fit(box, { padding: [48, 72, 80, 72], maxZoom: 13, duration: this.animated ? 250 : 0 });
  }

  zoom(by: number): void {
    const view = this.map.getView();
    view.animate({ zoom: (view.getZoom() ?? 2) + by, duration: this.animated ? 150 : 0 });
  }

  dispose(): void {
    this.stops.forEach(stop => stop());
    this.map.setTarget(undefined);
    this.map.dispose();
  }
}
