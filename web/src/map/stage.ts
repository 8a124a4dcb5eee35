// The map of a view: the Earth or the configured base map, and what the view puts on it.
import OLMap from "ol/Map";
import View from "ol/View";
import MousePosition from "ol/control/MousePosition";
import ScaleLine from "ol/control/ScaleLine";
import { defaults as interactions } from "ol/interaction/defaults";
import type BaseLayer from "ol/layer/Base";
import Graticule from "ol/layer/Graticule";
import TileLayer from "ol/layer/Tile";
import { unByKey } from "ol/Observable";
import { fromLonLat, transformExtent } from "ol/proj";
import XYZ from "ol/source/XYZ";
import { Stroke, Fill, Text } from "ol/style";
import "ol/ol.css";
import { settings } from "../api/session";
import { degrees } from "../format";
import { onSchemeChange } from "../status";
import { earthLayer, stylesOf } from "./earth";

export const cssColour = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// turned returns a longitude of any copy of the world as one from -180 to 180.
const turned = (x: number): number => x - 360 * Math.floor((x + 180) / 360);
const round = (x: number): number => Math.round(x * 1e4) / 1e4;

export type Box = [west: number, south: number, east: number, north: number];

export class Stage {
  readonly map: OLMap;
  private readonly earth = earthLayer();
  private readonly image: TileLayer | null;
  private readonly stops: (() => void)[] = [];
  private readonly restyles: (() => void)[] = [];

  constructor(target: HTMLElement) {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.map = new OLMap({
      target,
      controls: [
        new ScaleLine({ minWidth: 80 }),
        new MousePosition({
          projection: "EPSG:4326",
          coordinateFormat: ([x = 0, y = 0] = []) => `${degrees(round(y))}, ${degrees(round(turned(x)))}`,
          placeholder: "",
        }),
      ],
      layers: [this.earth],
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
    this.image = base
      ? new TileLayer({ source: new XYZ({ url: base.url, attributions: base.attribution }), zIndex: 1 })
      : null;
    if (this.image) this.map.addLayer(this.image);
    this.onRestyle(() => this.earth.setStyle(stylesOf(cssColour)));
    this.showGraticule();
    this.stops.push(onSchemeChange(() => this.restyles.forEach(restyle => restyle())));
  }

  private readonly animated: boolean;

  // hasImage reports whether there is a base map of images over the Earth.
  get hasImage(): boolean {
    return this.image !== null;
  }

  showImage(on: boolean): void {
    this.image?.setVisible(on);
  }

  // showGraticule draws the lines of whole degrees with their names.
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

  // onClick calls back with each place of the map that is clicked, until the returned function is called.
  onClick(then: (coordinate: number[]) => void): () => void {
    const key = this.map.on("click", event => then(event.coordinate));
    return () => unByKey(key);
  }

  add(layer: BaseLayer): void {
    this.map.addLayer(layer);
  }

  // fit shows a box in degrees, as far as the projection of the map shows it: to 85 degrees. West may be larger than
  // east.
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
