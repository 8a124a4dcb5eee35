import { describe, expect, test } from "vitest";
import places from "../earth/made/places.json";
import { gazetteer, readPosition, readSquare, search, type Row } from "../src/map/places";

const all = gazetteer(places as Row[]);

test("positions", () => {
  for (const [text, name] of [
    ["51.05, 3.72", "51.05, 3.72"],
    ["51.05 3.72", "51.05, 3.72"],
    ["3.72E 51.05N", "51.05, 3.72"],
    ["S 33.9; W 18.4", "-33.9, -18.4"],
    ["−33.9, 18.4", "-33.9, 18.4"],
  ])
    expect(readPosition(text!)?.name).toBe(name);
  for (const text of ["91, 0", "5", "Ghent", "1, 2, 3", "0, 181"]) expect(readPosition(text)).toBeNull();
});

test("squares of MGRS", () => {
  const [west, south, east, north] = readSquare("T31UFS")!.at as number[];
  expect([west!, south!, east!, north!].map(x => Math.round(x * 10) / 10)).toEqual([4.4, 50.5, 5.9, 51.4]);
  expect(readSquare("31UFS")!.name).toBe("31UFS");
  for (const text of ["31", "UFS", "31IFS", "99UFS"]) expect(readSquare(text)).toBeNull();
});

describe("places", () => {
  test("the largest comes first, and countries before them", () => {
    expect(search("gent", all)[0]).toMatchObject({ name: "Gent", detail: "Belgium" });
    expect(search("Belgium", all)[0]).toMatchObject({ at: { country: "Belgium" } });
    expect(search("sao paulo", all)[0]).toMatchObject({ name: "São Paulo", detail: "Brazil" });
  });
  test("nothing is nothing", () => {
    expect(search("", all)).toEqual([]);
    expect(search("zzzzqq", all)).toEqual([]);
  });
});
