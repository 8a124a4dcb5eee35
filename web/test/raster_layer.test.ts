import { expect, test, vi } from "vitest";
import { RasterLayer } from "../src/map/raster_layer";
import type { Stage } from "../src/map/stage";

// Each read of bands waits for its turn; band 1 has the values 100 and 101, band 2 200 and 201, and so on.
const reads: { bands: number[]; finish: () => void }[] = [];
vi.mock("geotiff", () => ({
  fromUrl: async () => ({
    getImage: async () => ({
      getGeoKeys: () => null,
      getWidth: () => 2,
      getHeight: () => 1,
      getBoundingBox: () => [0, 0, 2, 1],
      getSamplesPerPixel: () => 4,
      getGDALNoData: () => null,
      getGDALMetadata: async () => null,
    }),
    readRasters: ({ samples }: { samples: number[] }) =>
      new Promise(resolve =>
        reads.push({ bands: samples, finish: () => resolve(samples.map(b => [b * 100, b * 100 + 1])) }),
      ),
  }),
}));
const context = { createImageData: () => ({ data: { set: () => undefined } }), putImageData: () => undefined };
vi.stubGlobal("document", {
  baseURI: "http://localhost/",
  createElement: () => ({ getContext: () => context, toDataURL: () => "data:," }),
});

const stage = { add: () => undefined, map: { removeLayer: () => undefined } } as unknown as Stage;
const picture = (name: string) => ({ name, href: name, meaning: { bands: [], classes: [] } });
const turn = () => new Promise(resolve => setTimeout(resolve));

async function finish(bands: string): Promise<void> {
  await turn();
  const at = reads.findIndex(r => r.bands.join() === bands);
  reads.splice(at, 1)[0]!.finish();
  await turn();
}

test("the bands that are chosen last are shown, in whatever order they are read", async () => {
  const layer = new RasterLayer(stage);
  const added = layer.add(picture("a"), 1);
  await finish("0");
  await added;
  const first = layer.choose({ bands: [1], stretch: "all" });
  const second = layer.choose({ bands: [2], stretch: "all" });
  await finish("2");
  await second;
  expect(layer.range).toEqual([200, 201]);
  await finish("1");
  await finish("2");
  await first;
  layer.draw();
  expect(layer.range).toEqual([200, 201]);
});

test("a file that is read while other bands are chosen gets these", async () => {
  const layer = new RasterLayer(stage);
  const added = layer.add(picture("b"), 1);
  await turn();
  await layer.choose({ bands: [0, 1, 2], stretch: "all" });
  await finish("0");
  await finish("0,1,2");
  await added;
  await layer.choose({ stretch: "most" });
  const one = layer.choose({ bands: [3], stretch: "all" });
  await layer.choose({ palette: "grey" }); // while the file has three bands
  await finish("3");
  await one;
  layer.draw();
  expect(layer.range).toEqual([300, 301]);
});
