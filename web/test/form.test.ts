import type { VNode } from "preact";
import { expect, test, vi } from "vitest";
import type { DimensionProgress, Grid, Job, JobRequest, Parameter, Service, Tile } from "../src/api/wire";
import { settings } from "../src/api/session";
import { draftOfTask } from "../src/form/again";
import { limitFlags, readLimits } from "../src/form/options";
import { groupsOf } from "../src/form/grids";
import { presets } from "../src/form/presets";
import { asCurl, asPython } from "../src/form/request";
import { sentAsBoxes } from "../src/form/sent";
import { titleOf } from "../src/form/title";
import { Shown } from "../src/form/shown";
import { inField } from "../src/format";
import { outcomeOf } from "../src/run";
import { costsOf } from "../src/views/costs";
import { asCSV, columnsOf } from "../src/views/numbers";

vi.hoisted(() => (process.env["TZ"] = "America/New_York"));

const parameter = (name: string, type: Parameter["type"], optional = false): Parameter => ({
  name,
  type,
  optional,
  nullable: false,
  default: null,
  description: "",
  options: [],
  schema: {},
});
const service = {
  id: "ndvi",
  title: "NDVI",
  label: "openeo",
  parameters: [
    parameter("area", "bounding-box"),
    parameter("time", "date-interval"),
    parameter("cloud", "integer", true),
  ],
} as unknown as Service;
const box = (west: number, south: number, size: number) => ({
  type: "Polygon" as const,
  coordinates: [
    [
      [west, south],
      [west + size, south],
      [west + size, south + size],
      [west, south + size],
      [west, south],
    ],
  ],
});

test("a title says where and when", () => {
  const area = { geometry: box(5, 51, 1), isBox: true };
  const entries = { time: { from: "2024-06-01", to: "2024-09-01" } };
  expect(titleOf(service, { area, entries }).replace(/\s/g, " ")).toBe("NDVI, 51.5°N 5.5°E, Jun – Aug 2024");
  expect(titleOf(service, { area: { ...area, name: "Belgium" }, entries: {} })).toBe("NDVI, Belgium");
  expect(titleOf(service, { area: null, entries: {} })).toBe("NDVI");
});

test("boxes around what is no box are larger", () => {
  expect(sentAsBoxes([box(5, 51, 1), box(6, 51, 1)])).toBeNull();
  const triangle = {
    type: "Polygon" as const,
    coordinates: [box(5, 51, 0.1).coordinates[0]!.filter((_, i) => i !== 3)],
  };
  expect(sentAsBoxes([triangle])!.more).toBeCloseTo(1, 1);
});

test("limits are read, and budgets are of tasks only", () => {
  const entered = { budget: "50", trial: "2", retries: "3", hours: "0.5", labels: "a=b c, d=", note: " seen " };
  const read = readLimits(entered, true);
  expect(read).toEqual({
    options: { budget: 50, trial: 2, retries: 3, max_duration: 1800 },
    labels: { a: "b c", d: "" },
    note: "seen",
    fault: null,
  });
  expect(limitFlags(read, text => `'${text}'`)).toEqual([
    "--budget 50",
    "--trial 2",
    "--option retries=3",
    "--option max_duration=1800",
    "--label 'a=b c'",
    "--label 'd='",
    "--note 'seen'",
  ]);
  expect(readLimits(entered, false).options).toEqual({ retries: 3, max_duration: 1800 });
  expect(readLimits({ notify: " a@b.example " }, true).options.notify).toEqual({
    url: "mailto:a@b.example",
    events: ["task_ended", "attention"],
  });
  expect(readLimits({ notify: "https://r.example/x" }, false).options.notify!.events).toContain("finished");
  for (const wrong of [{ retries: "1.5" }, { budget: "x" }, { trial: "0" }, { labels: "season" }, { notify: "nobody" }])
    expect(readLimits(wrong, true).fault).not.toBeNull();
});

test("spans of time that have ended", () => {
  expect(presets(new Date("2026-02-10")).map(p => `${p.from}/${p.to}`)).toEqual([
    "2026-01-01/2026-02-01",
    "2025-11-01/2026-02-01",
    "2025-04-01/2025-10-01",
    "2025-01-01/2026-01-01",
  ]);
});

test("a task is filled in again: its tiles as cells, its months, and other values", () => {
  const job = {
    id: 1,
    title: "NDVI",
    parameters: { area: {}, time: ["2024-06-01", "2024-07-01"], cloud: 10 },
    options: { max_duration: 3600, pin: true },
    labels: { season: "spring" },
  } as unknown as Job;
  const value = (v: unknown, jobs: number[], name?: string) => ({ value: v, jobs, name });
  const dimensions = [
    { name: "area", values: [value({}, [1, 2], "31UFS"), value({}, [3, 4], "31UFT")] },
    { name: "time", values: [value(["2024-06-01", "2024-07-01"], [1]), value(["2024-07-01", "2024-08-01"], [2])] },
    { name: "cloud", values: [value(10, [1]), value(30, [2])] },
  ] as unknown as DimensionProgress[];
  const tiles = [1, 3].map((id, i) => ({ id, geometry: box(5 + i, 51, 1) })) as unknown as Tile[];
  const draft = draftOfTask(service, job, dimensions, tiles);
  expect(draft).toMatchObject({
    split: true,
    grid: ":cells",
    step: "month",
    over: { name: "cloud", lines: "10\n30" },
    pin: true,
    limits: { hours: "1", labels: "season=spring" },
  });
  expect(draft.entries["time"]).toEqual({ from: "2024-06-01", to: "2024-08-01" });
  expect(draft.cells!.grid.features.map(f => f.id)).toEqual(["31UFS", "31UFT"]);
  expect(draft.area!.geometry.coordinates).toHaveLength(2);
});

test("what came of a task", () => {
  const task = (status: string, counts: object) => outcomeOf({ id: 1, title: "", status, counts } as never).words;
  expect(task("finished", { finished: 14 })).toBe("finished");
  expect(task("finished", { finished: 5, canceled: 28 })).toBe("canceled, 5 of 33 finished");
  expect(task("finished", { finished: 12, failed: 2 })).toBe("finished, 2 failed");
  expect(task("running", { finished: 12, running: 2 })).toBe("running");
});

test("numbers of tiles as CSV", () => {
  const rows = [
    { id: 7, name: "31UFS", values: new Map<string, number | string>([["mean", 0.5]]) },
    { id: 8, name: 'a "b", c', values: new Map<string, number | string>([["unit", "one"]]) },
  ];
  expect(asCSV(rows, columnsOf(rows))).toBe('job,tile,mean,unit\n7,31UFS,0.5,\n8,"a ""b"", c",,one\n');
  expect(asCSV([{ id: 9, name: "a\rb", values: new Map() }], [])).toBe('job,tile\n9,"a\rb"\n');
});

test("costs are added up by their units", () => {
  const job = (costs: number | undefined, cost_unit?: string) => ({ costs, cost_unit }) as Job;
  expect(costsOf([job(1, "EUR"), job(undefined), job(30, "credits"), job(2, "EUR")])).toEqual([
    ["EUR", { tiles: 2, total: 3, low: 1, high: 2 }],
    ["credits", { tiles: 1, total: 30, low: 30, high: 30 }],
  ]);
});

test("a number in a field is read as the number that it shows", () => {
  for (const [n, shown] of [
    [10_000, "10000"],
    [1234.4, "1234"],
    [-0.12345, "-0.123"],
    [0, "0"],
  ] as const)
    expect(inField(n)).toBe(shown);
});

test("times of data are shown in UTC", () => {
  const { props } = Shown({ value: "2024-06-01T02:00:00+02:00" }) as VNode<{ children: string }>;
  expect(props.children).toMatch(/2024.* UTC$/);
  expect(props.children).not.toContain("31"); // of May, where the test is
});

test("a task whose values were combined one by one is filled in again as such", () => {
  const job = { id: 1, title: "NDVI", parameters: {} } as unknown as Job;
  const dimension = (name: string, jobs: number[][]) =>
    ({ name, values: jobs.map((of, i) => ({ value: i, jobs: of })) }) as unknown as DimensionProgress;
  const zip = (...all: DimensionProgress[]) => draftOfTask(service, job, all, []).zip;
  expect(zip(dimension("area", [[1], [2]]), dimension("cloud", [[1], [2]]))).toBe(true);
  expect(
    zip(
      dimension("area", [
        [1, 2],
        [3, 4],
      ]),
      dimension("cloud", [
        [1, 3],
        [2, 4],
      ]),
    ),
  ).toBe(false);
  expect(zip(dimension("area", [[1, 2]]), dimension("cloud", [[1], [2]]))).toBe(false);
  expect(zip(dimension("cloud", [[1], [2]]))).toBe(false);
});

test("snippets read the variable of the command line and the documents", () => {
  const request = { title: "NDVI", format: "gtiff", parameters: {} } as unknown as JobRequest;
  for (const snippet of [asCurl(request, "k"), asPython(request, "k")])
    expect(snippet.match(/\w*TOKEN/g)).toEqual(["EODISPATCH_TOKEN"]);
});

test("grids with far more tiles than a task may have are not offered", () => {
  const grid = (name: string, metres: number) => ({ name, cell_width: metres, cell_height: metres }) as Grid;
  settings.value = { ...settings.value, limits: { ...settings.value.limits, values: 10_000 } };
  const names = (chosen: string) =>
    groupsOf([grid("20x20km", 20_000), grid("h3-10", 120), grid("mgrs-100km", 100_000)], 10_000, chosen).map(
      ({ kind, grids }) => `${kind}: ${grids.map(g => g.grid.name).join()}`,
    );
  expect(names("20x20km")).toEqual(["degrees: 20x20km", "mgrs: mgrs-100km"]);
  expect(names("h3-10")).toEqual(["degrees: 20x20km", "h3: h3-10", "mgrs: mgrs-100km"]);
});
