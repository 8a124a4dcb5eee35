// Parameters of a service as controls of a form: which control a schema gets, what it shows first, and the value it
// sends.
import type { Parameter } from "../api/wire";
import { texts } from "../texts";

export type Control =
  | "area"
  | "interval"
  | "date"
  | "datetime"
  | "boolean"
  | "choice"
  | "choices"
  | "number"
  | "text"
  | "lines"
  | "json";

// Entry is what a control holds: a text as it was typed, a switch, the ends of an interval, or chosen options as JSON.
export type Entry = string | boolean | string[] | { from: string; to: string };

interface Schema {
  format?: string;
  subtype?: string;
  type?: unknown;
  items?: Schema;
}

const schemaOf = (p: Parameter): Schema =>
  (Array.isArray(p.schema) ? (p.schema[0] as Schema) : (p.schema as Schema | null)) ?? {};

export function controlOf(p: Parameter): Control {
  switch (p.type) {
    case "bounding-box":
    case "polygon":
      return "area";
    case "date-interval":
      return "interval";
    case "datetime":
      return schemaOf(p).format === "date" || schemaOf(p).subtype === "date" ? "date" : "datetime";
    case "boolean":
      return "boolean";
    case "array-string":
      return p.options.length > 0 ? "choices" : "lines";
    case "integer":
    case "double":
      return p.options.length > 0 ? "choice" : "number";
    case "string":
      if (p.options.length > 0) return "choice";
      return schemaOf(p).format === "date" ? "date" : "text";
  }
  return "json";
}

// areaOf returns the parameter that the area of a run fills: the first that is required, or else the first.
export function areaOf(parameters: Parameter[]): Parameter | null {
  const all = parameters.filter(p => controlOf(p) === "area");
  return all.find(p => !p.optional) ?? all[0] ?? null;
}

// label makes words of a name such as max_cloud_cover.
export function label(name: string): string {
  const words = name
    .replace(/[_-]+/g, " ")
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

const json = (value: unknown): string => JSON.stringify(value);

// inUTC returns a time as the fields of a form take it: in UTC, as is one that names no zone. It drops what is 0 of the
// seconds.
function inUTC(value: unknown): string {
  if (typeof value !== "string") return "";
  const at = new Date(/T.*(Z|[+-]\d\d:?\d\d)$/i.test(value) || !value.includes("T") ? value : `${value}Z`);
  return Number.isFinite(at.getTime()) ? at.toISOString().replace(/(:00)?\.000Z$|Z$/, "") : "";
}

const dayOf = (value: unknown): string => inUTC(value).slice(0, 10);

// daysOf returns the days of an interval: from the one in which it begins until the one before which it ends.
export function daysOf(value: unknown): { from: string; to: string } {
  const [from, to] = Array.isArray(value) ? (value as unknown[]) : [];
  const last = dayOf(to);
  const within = last !== "" && inUTC(to) > `${last}T00:00`;
  return { from: dayOf(from), to: within ? dayOf(new Date(Date.parse(last) + 86_400_000).toISOString()) : last };
}

// entryOf returns what a control holds for a value, such as the default.
export function entryOf(p: Parameter, value: unknown): Entry {
  const given = value !== null && value !== undefined;
  switch (controlOf(p)) {
    case "interval":
      return daysOf(value);
    case "boolean":
      return value === true;
    case "choice":
      return given ? json(value) : "";
    case "choices":
      return Array.isArray(value) ? value.map(json) : [];
    case "lines":
      return Array.isArray(value) ? value.map(String).join("\n") : "";
    case "date":
      return dayOf(value);
    case "datetime":
      return inUTC(value);
    case "number":
    case "text":
      return given ? String(value) : "";
    case "json":
    case "area":
      return given ? JSON.stringify(value, null, 2) : "";
  }
}

export type Value = { value: unknown } | { fault: string } | "absent";

// valueOf returns what an entry sends. Optional parameters with their default value are absent, so the default of the
// service holds, also one that the control cannot hold in full.
export function valueOf(p: Parameter, entry: Entry): Value {
  if (p.optional && json(entry) === json(entryOf(p, p.default))) return "absent";
  const read = valueIn(p, entry);
  if (read === "absent") return p.optional ? "absent" : p.nullable ? { value: null } : { fault: texts.form.needed };
  if ("value" in read && p.optional && json(read.value) === json(p.default)) return "absent";
  return read;
}

function valueIn(p: Parameter, entry: Entry): Value {
  if (typeof entry === "boolean") return { value: entry };
  if (Array.isArray(entry)) return entry.length > 0 ? { value: entry.map(e => JSON.parse(e) as unknown) } : "absent";
  if (typeof entry === "object") return interval(p, entry);
  const text = entry.trim();
  if (text === "") return "absent";
  switch (controlOf(p)) {
    case "number": {
      const n = Number(text);
      return Number.isFinite(n) && (p.type !== "integer" || Number.isInteger(n))
        ? range(p, n)
        : { fault: texts.form.badNumber };
    }
    case "lines":
      return {
        value: text
          .split("\n")
          .map(line => line.trim())
          .filter(Boolean),
      };
    case "datetime":
      return { value: text.length > "2024-01-01T00:00".length ? `${text}Z` : `${text}:00Z` };
    case "choice": // the service may have been another when the draft was kept
    case "json":
    case "area":
      return parsed(text);
  }
  return { value: text };
}

function parsed(text: string): Value {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return { fault: texts.form.badJSON };
  }
}

function range(p: Parameter, n: number): Value {
  if (p.minimum !== undefined && n < p.minimum) return { fault: texts.form.least(p.minimum) };
  if (p.maximum !== undefined && n > p.maximum) return { fault: texts.form.most(p.maximum) };
  return { value: n };
}

function interval(p: Parameter, { from, to }: { from: string; to: string }): Value {
  if (from === "" && to === "") return "absent";
  const open = JSON.stringify(p.schema).includes('"null"');
  if ((from === "" || to === "") && !open) return { fault: texts.form.needed };
  if (from !== "" && to !== "" && from >= to) return { fault: texts.form.badOrder };
  const precise = schemaOf(p).items?.format === "date-time";
  const end = (day: string) => (day === "" ? null : precise ? `${day}T00:00:00Z` : day);
  return { value: [end(from), end(to)] };
}
