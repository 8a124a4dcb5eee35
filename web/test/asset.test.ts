import { expect, test } from "vitest";
import { mayBeValue, meaningOf, textOf, valuesIn } from "../src/map/asset";

test("bands by any of the three ways of STAC", () => {
  const range = { minimum: -0.2, maximum: 1 };
  const bands = [{ name: "NDVI", unit: "", low: -0.2, high: 1 }];
  const given = { href: "x.tif" };
  expect(meaningOf({ ...given, bands: [{ name: "NDVI", statistics: range }] } as never).bands).toEqual(bands);
  expect(
    meaningOf({ ...given, "eo:bands": [{ name: "NDVI" }], "raster:bands": [{ statistics: range }] } as never).bands,
  ).toEqual(bands);
  expect(meaningOf(given)).toEqual({ bands: [], classes: [] });
});

test("classes with their colours", () => {
  const classes = [
    { value: 1, name: "forest", color_hint: "006400" },
    { value: 2, description: "water" },
    { name: "without a value" },
  ];
  const meant = [
    { value: 1, label: "forest", colour: [0, 100, 0] },
    { value: 2, label: "water", colour: null },
  ];
  expect(meaningOf({ href: "x.tif", "classification:classes": classes } as never).classes).toEqual(meant);
  expect(meaningOf({ href: "x.tif", bands: [{ "classification:classes": classes }] } as never).classes).toEqual(meant);
});

test("values in small files", async () => {
  expect(mayBeValue({ href: "data:,1", type: "text/plain" })).toBe(true);
  expect(mayBeValue({ href: "https://x/y.json", type: "application/json" })).toBe(false); // of unknown size
  expect(mayBeValue({ href: "https://x/y.json", type: "application/geo+json", "file:size": 9 })).toBe(false);
  expect(await textOf("data:application/json;base64,MC41Mw==")).toBe("0.53");
  expect(await textOf("data:text/plain,a%20b")).toBe("a b");
  expect([...valuesIn("mean", "0.53")]).toEqual([["mean", 0.53]]);
  expect([...valuesIn("unit", "NDVI")]).toEqual([["unit", "NDVI"]]);
  expect([...valuesIn("all", '{"mean": 0.5, "by": {"year": 1}, "none": null}')]).toEqual([
    ["mean", 0.5],
    ["by.year", 1],
  ]);
});
