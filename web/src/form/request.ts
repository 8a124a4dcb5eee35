// The request that a draft makes, and the same request for other tools.
import type { Geometry, MultiPolygon, Polygon } from "geojson";
import { address, Refused } from "../api/client";
import type { Dimension, JobRequest, Parameter, Service, TaskRequest } from "../api/wire";
import { cornersOf, type Area } from "../area/area";
import { cutAtAntimeridian } from "../map/antimeridian";
import { texts } from "../texts";
import { dimensionsOf, intervalOf, isZipped, several, valuesIn } from "./dimensions";
import type { Draft } from "./draft";
import { limitFlags, readLimits } from "./options";
import { areaOf, controlOf, valueOf } from "./parameters";
import { titleOf } from "./title";
import { tileFlags } from "./tiling";

// Faults are by parameter; "title", "format", "area", "several" and "limits" of the form have names with a colon
export type Faults = Record<string, string>;

export const formats = ["gtiff", "netcdf", "geojson", "json"];

// formatsOf returns the formats that a service offers, the common ones first; the common ones if it does not say.
export function formatsOf(service: Service): string[] {
  const offered = (service.formats ?? []).map(f =>
    formats.includes(f.name.toLowerCase()) ? f.name.toLowerCase() : f.name,
  );
  if (offered.length === 0) return formats;
  return [...formats.filter(f => offered.includes(f)), ...offered.filter(f => !formats.includes(f))];
}

const names: Record<string, string> = { gtiff: "GeoTIFF", netcdf: "netCDF", geojson: "GeoJSON", json: "JSON" };

// formatName returns what people call a format: as the platform does, or else by its common name.
export function formatName(service: Service, format: string): string {
  const title = service.formats?.find(f => f.name.toLowerCase() === format.toLowerCase())?.title;
  return title && title.toLowerCase() !== format.toLowerCase() ? title : (names[format] ?? format);
}

export interface Prepared {
  request: JobRequest | TaskRequest;
  faults: Faults;
}

// prepare makes the request of a draft; tiles are the values of a task, and ids their names.
export function prepare(service: Service, draft: Draft, tiles: Geometry[], ids: string[]): Prepared {
  const faults: Faults = {};
  const parameters: Record<string, unknown> = {};
  const area = areaOf(service.parameters ?? []);
  for (const p of service.parameters ?? []) {
    if (p === area) continue;
    const read = valueOf(p, draft.entries[p.name] ?? "");
    if (read === "absent") continue;
    if ("fault" in read) faults[p.name] = read.fault;
    else parameters[p.name] = read.value;
  }
  const task = draft.split || !!draft.step || !!draft.over;
  const limits = readLimits(draft.limits ?? {}, task);
  if (limits.fault) faults[":limits"] = limits.fault;
  const options = { ...(draft.pin && { pin: true }), ...limits.options };
  const request: JobRequest = {
    title: draft.title.trim() || titleOf(service, draft),
    ...(!service.homes && { label: service.label }),
    service: { id: service.id, ...(service.homes && draft.at && { platform: draft.at }) },
    parameters,
    format: draft.format || formatsOf(service)[0]!,
    ...(Object.keys(options).length > 0 && { options }),
    ...(Object.keys(limits.labels).length > 0 && { labels: limits.labels }),
    ...(limits.note && { note: limits.note }),
  };
  const dimensions = dimensionsIn(service, draft, parameters, faults);
  if (area && !draft.area && (!area.optional || draft.split)) faults[":area"] = texts.form.needed;
  if (area && draft.area && draft.split) dimensions.unshift({ name: area.name, values: tiles, names: ids });
  else if (area && draft.area) parameters[area.name] = areaValue(area, draft.area);
  return { request: withDimensions(request, dimensions, draft.zip ?? false), faults };
}

// dimensionsIn returns the dimensions of a draft beside the tiles. It removes their parameters from those that all jobs
// share.
function dimensionsIn(
  service: Service,
  draft: Draft,
  parameters: Record<string, unknown>,
  faults: Faults,
): Dimension[] {
  const all: Dimension[] = [];
  const time = intervalOf(service.parameters ?? []);
  if (time && draft.step) {
    const [from, to] = (parameters[time.name] ?? []) as (string | null)[];
    if (from && to) all.push({ name: time.name, interval: [from, to], split: draft.step });
    else faults[time.name] ??= texts.several.needsEnds;
    delete parameters[time.name];
  }
  const over = draft.over && several(service.parameters ?? []).find(p => p.name === draft.over!.name);
  if (over) {
    const read = valuesIn(over, draft.over!.lines);
    if ("fault" in read) faults[":several"] = read.fault;
    else all.push({ name: over.name, values: read.values });
    delete parameters[over.name];
    delete faults[over.name]; // its own field is not used
  }
  return all;
}

function withDimensions(request: JobRequest, dimensions: Dimension[], zip: boolean): JobRequest | TaskRequest {
  const [first] = dimensions;
  if (!first) return request;
  return dimensions.length === 1 && "values" in first
    ? { ...request, dimension: first }
    : { ...request, dimensions, ...(zip && dimensions.length > 1 && { combine: "zip" as const }) };
}

function areaValue(p: Parameter, area: Area): unknown {
  if (p.type === "bounding-box") return cornersOf(area.geometry);
  const parts: MultiPolygon = cutAtAntimeridian(area.geometry);
  return parts.coordinates.length === 1
    ? ({ type: "Polygon", coordinates: parts.coordinates[0]! } satisfies Polygon)
    : parts;
}

// faultsOf assigns the errors of a response to the fields of the form; others are general.
export function faultsOf(error: unknown, service: Service): { faults: Faults; general: string[] } {
  const faults: Faults = {};
  const general: string[] = [];
  if (!(error instanceof Refused)) return { faults, general };
  const area = areaOf(service.parameters ?? [])?.name;
  for (const { loc, msg } of error.errors) {
    const [, member, name] = loc;
    if (member === "parameters" && typeof name === "string") faults[name === area ? ":area" : name] = msg;
    else if (member === "dimension" || member === "aoi") faults[":area"] = msg;
    else if (member === "dimensions" || member === "combine") faults[":several"] = msg;
    else if (member === "title" || member === "format") faults[`:${member}`] = msg;
    else if (member === "options" || member === "labels" || member === "note") faults[":limits"] = msg;
    else general.push(`${loc.slice(1).join(".") || texts.form.general}: ${msg}`);
  }
  return { faults, general };
}

export const isTask = (request: JobRequest | TaskRequest): request is TaskRequest => dimensionsOf(request).length > 0;
export const pathOf = (request: JobRequest | TaskRequest): string => (isTask(request) ? "upscale_tasks" : "unit_jobs");

const shellQuoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
const longest = 4_000; // characters of a request within a command; a longer one is in a file

// asCurl returns the request as a curl command.
export function asCurl(request: JobRequest | TaskRequest, key: string): string {
  const body = JSON.stringify(request);
  return [
    `curl ${shellQuoted(address(pathOf(request)).href)} \\`,
    `  -H "Authorization: Bearer $EODISPATCH_TOKEN" -H 'Content-Type: application/json' \\`,
    `  -H 'Idempotency-Key: ${key}' \\`,
    `  -d ${body.length > longest ? "@request.json" : shellQuoted(body)}`,
  ].join("\n");
}

// asPython returns the request as a Python program that needs no package.
export function asPython(request: JobRequest | TaskRequest, key: string): string {
  const body = JSON.stringify(request); // byte for byte, because its key stands for it
  const inFile = body.length > longest;
  return [
    "import json, os, urllib.request",
    "",
    inFile
      ? 'body = open("request.json", "rb").read()'
      : `body = r'''${body.replaceAll("'''", "\\u0027\\u0027\\u0027")}'''.encode()`,
    "request = urllib.request.Request(",
    `    ${JSON.stringify(address(pathOf(request)).href)},`,
    "    data=body,",
    "    headers={",
    '        "Authorization": "Bearer " + os.environ["EODISPATCH_TOKEN"],',
    '        "Content-Type": "application/json",',
    `        "Idempotency-Key": ${JSON.stringify(key)},`,
    "    },",
    ")",
    "with urllib.request.urlopen(request) as response:",
    "    made = json.load(response)",
    'print(made["id"], made["status"])',
  ].join("\n");
}

// asCommand returns the request as a command line of eodispatch.
export function asCommand(service: Service, draft: Draft, request: JobRequest | TaskRequest): string {
  const dimensions = dimensionsOf(request);
  if (draft.over) return "eodispatch run -f request.json"; // whose values would need a file anyway
  const words = [isTask(request) ? "eodispatch upscale" : "eodispatch run", shellQuoted(service.id)];
  const area = areaOf(service.parameters ?? []);
  const byName = new Map((service.parameters ?? []).map(p => [p.name, p]));
  if (draft.area && area) {
    const { west, south, east, north } = cornersOf(draft.area.geometry);
    words.push(draft.area.isBox ? `--area=${[west, south, east, north].join(",")}` : "--area area.geojson");
  }
  if (draft.at) words.push(`--at ${shellQuoted(draft.at)}`);
  words.push(...tileFlags(draft));
  for (const d of dimensions) if ("split" in d) words.push(`--time ${d.interval.join("/")}`, `--split ${d.split}`);
  if (isZipped(request)) words.push("--zip");
  if (request.options?.pin) words.push("--option pin=true");
  words.push(...limitFlags(readLimits(draft.limits ?? {}, isTask(request)), shellQuoted));
  for (const [name, value] of Object.entries(request.parameters)) {
    const p = byName.get(name);
    if (p === area) continue;
    if (p && controlOf(p) === "interval" && Array.isArray(value))
      words.push(`--time ${value.map(end => String(end ?? "..")).join("/")}`);
    else words.push(`-p ${shellQuoted(`${name}=${isPlain(value) ? value : JSON.stringify(value)}`)}`);
  }
  words.push(`--format ${shellQuoted(request.format)}`, `--title ${shellQuoted(request.title)}`);
  return words.join(" \\\n  ");
}

// isPlain reports whether the command takes a value for the text that it is, and not for JSON or the name of a file.
function isPlain(value: unknown): value is string {
  if (typeof value !== "string" || value.startsWith("@")) return false;
  try {
    JSON.parse(value);
    return false;
  } catch {
    return true;
  }
}
