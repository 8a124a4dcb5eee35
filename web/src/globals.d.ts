declare module "shpjs" {
  import type { FeatureCollection } from "geojson";
  export default function readShapefile(zip: ArrayBuffer): Promise<FeatureCollection | FeatureCollection[]>;
}
