// The request that a draft makes, and the same request for other tools.
import type { Geometry, MultiPolygon, Polygon } from "geojson";
import { address, Refused } from "../api/client";
import type { Format, JobRequest, Parameter, Service, TaskRequest } from "../api/wire";
import { cornersOf, type Area } from "../area/area";
import { cutAtAntimeridian } from "../map/antimeridian";
import { texts } from "../texts";
import type { Draft } from "./draft";
import { areaOf, controlOf, valueOf } from "./parameters";

export type Faults = Record<string, string>; // by parameter; "title", "format" and "area" of the form have names with a colon

export const formats: Format[] = ["gtiff", "netcdf", "geojson", "json"];

// formatsOf returns the formats that a service's platform writes, as far as the broker's interface names them.
export function formatsOf(service: Service): Format[] {
  const offered = (service.formats ?? []).map((f) => f.name.toLowerCase());
  const known = formats.filter((f) => offered.includes(f));
  return known.length > 0 ? known : formats;
}

const names: Record<Format, string> = { gtiff: "GeoTIFF", netcdf: "netCDF", geojson: "GeoJSON", json: "JSON" };

// formatName returns what people call a format: as the platform does, or else by its common name.
export function formatName(service: Service, format: Format): string {
  const title = service.formats?.find((f) => f.name.toLowerCase() === format)?.title;
  return title && title.toLowerCase() !== format ? title : names[format];
}

export interface Prepared {
  request: JobRequest | TaskRequest;
  faults: Faults;
}

// prepare makes the request of a draft; tiles are the values of a task.
export function prepare(service: Service, draft: Draft, tiles: Geometry[]): Prepared {
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
  if (draft.title.trim() === "") faults[":title"] = texts.form.needed;
  const request: JobRequest = {
    title: draft.title.trim(),
    label: service.label,
    service: { id: service.id },
    parameters,
    format: draft.format || formatsOf(service)[0]!,
  };
  if (!area) return { request, faults };
  if (!draft.area) {
    if (!area.optional || draft.split) faults[":area"] = texts.form.needed;
    return { request, faults };
  }
  if (draft.split) return { request: { ...request, dimension: { name: area.name, values: tiles } } satisfies TaskRequest, faults };
  parameters[area.name] = areaValue(area, draft.area);
  return { request, faults };
}

function areaValue(p: Parameter, area: Area): unknown {
  if (p.type === "bounding-box") return cornersOf(area.geometry);
  const parts: MultiPolygon = cutAtAntimeridian(area.geometry);
  return parts.coordinates.length === 1 ? ({ type: "Polygon", coordinates: parts.coordinates[0]! } satisfies Polygon) : parts;
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
    else if (member === "title" || member === "format") faults[`:${member}`] = msg;
    else general.push(`${loc.slice(1).join(".") || texts.form.general}: ${msg}`);
  }
  return { faults, general };
}

export const isTask = (request: JobRequest | TaskRequest): request is TaskRequest => "dimension" in request;
export const pathOf = (request: JobRequest | TaskRequest): string => (isTask(request) ? "upscale_tasks" : "unit_jobs");

const shellQuoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
const longest = 4_000; // characters of a request within a command; a longer one is in a file

// asCurl returns the request as a curl command.
export function asCurl(request: JobRequest | TaskRequest, key: string): string {
  const body = JSON.stringify(request);
  return [
    `curl ${shellQuoted(address(pathOf(request)).href)} \\`,
    `  -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\`,
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
    inFile ? 'body = open("request.json", "rb").read()' : `body = r'''${body.replaceAll("'''", "\\u0027\\u0027\\u0027")}'''.encode()`,
    "request = urllib.request.Request(",
    `    ${JSON.stringify(address(pathOf(request)).href)},`,
    "    data=body,",
    "    headers={",
    '        "Authorization": "Bearer " + os.environ["TOKEN"],',
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
  const words = [isTask(request) ? "eodispatch upscale" : "eodispatch run", shellQuoted(service.id)];
  const area = areaOf(service.parameters ?? []);
  const byName = new Map((service.parameters ?? []).map((p) => [p.name, p]));
  if (draft.area && area) {
    const { west, south, east, north } = cornersOf(draft.area.geometry);
    words.push(draft.area.isBox ? `--area=${[west, south, east, north].join(",")}` : "--area area.geojson");
  }
  if (isTask(request)) words.push(`--grid ${draft.grid}`);
  for (const [name, value] of Object.entries(request.parameters)) {
    const p = byName.get(name);
    if (p === area) continue;
    if (p && controlOf(p) === "interval" && Array.isArray(value)) words.push(`--time ${value.map((end) => String(end ?? "..")).join("/")}`);
    else words.push(`-p ${shellQuoted(`${name}=${isPlain(value) ? value : JSON.stringify(value)}`)}`);
  }
  words.push(`--format ${request.format}`, `--title ${shellQuoted(request.title)}`);
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
