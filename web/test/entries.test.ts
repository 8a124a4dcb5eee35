import { expect, test } from "vitest";
import type { Parameter } from "../src/api/wire";
import { boxOf, cornersOf } from "../src/area/area";
import { entryOf, valueOf } from "../src/form/parameters";

const parameter = (type: Parameter["type"], more: Partial<Parameter> = {}): Parameter => ({
  name: "p",
  type,
  optional: false,
  nullable: false,
  default: null,
  description: "",
  options: [],
  schema: {},
  ...more,
});
const again = (p: Parameter, value: unknown) => valueOf(p, entryOf(p, value));

test("corners at the antimeridian stay where they are, also those of the whole world", () => {
  for (const corners of [
    { west: -180, south: -90, east: 180, north: 90 },
    { west: 170, south: 0, east: 180, north: 1 },
    { west: -180, south: 0, east: -170, north: 1 },
    { west: 170, south: 0, east: -170, north: 1 },
    { west: -10, south: 80, east: 10, north: 90 },
  ])
    expect(cornersOf(boxOf(corners)!.geometry)).toEqual(corners);
});

test("a time keeps its zone and its seconds in the form", () => {
  const p = parameter("datetime");
  expect(again(p, "2024-01-01T12:00:00+02:00")).toEqual({ value: "2024-01-01T10:00:00Z" });
  expect(again(p, "2024-01-01T12:00:30Z")).toEqual({ value: "2024-01-01T12:00:30Z" });
  expect(again(p, "2024-01-01T12:00:00")).toEqual({ value: "2024-01-01T12:00:00Z" });
  expect(again(p, "2024-01-01")).toEqual({ value: "2024-01-01T00:00:00Z" });
  expect(entryOf(p, "2024-01-01T12:00:00Z")).toBe("2024-01-01T12:00");
  expect(entryOf(p, "now")).toBe("");
});

test("an interval of an earlier run keeps its last day", () => {
  const p = parameter("date-interval", { schema: { items: { format: "date-time" } } });
  const january = { value: ["2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z"] };
  expect(again(p, ["2024-01-01T00:00:00Z", "2024-01-31T23:59:59Z"])).toEqual(january);
  expect(again(p, ["2024-01-01T00:00:00Z", "2024-02-01T00:00:00.000Z"])).toEqual(january);
  expect(again(p, ["2024-01-01T06:00:00Z", "2024-01-01T18:00:00Z"])).toEqual({
    value: ["2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"],
  });
  expect(entryOf(p, ["2024-01-01", null])).toEqual({ from: "2024-01-01", to: "" });
});

test("a default that is not changed is not sent, also one that the control cannot hold", () => {
  const span = ["2024-01-01T06:00:00Z", "2024-01-01T18:00:00Z"];
  expect(again(parameter("date-interval", { optional: true, default: span }), span)).toBe("absent");
  expect(again(parameter("datetime", { optional: true, default: "now" }), "now")).toBe("absent");
  expect(again(parameter("boolean", { optional: true }), null)).toBe("absent");
  expect(again(parameter("boolean", { optional: true, default: true }), false)).toEqual({ value: false });
  expect(again(parameter("boolean"), null)).toEqual({ value: false });
  expect(again(parameter("integer", { optional: true, default: 5 }), 6)).toEqual({ value: 6 });
});

test("a kept choice of a parameter that had other values is a fault", () => {
  expect(valueOf(parameter("string", { options: ["a"] }), "a")).toHaveProperty("fault");
});
