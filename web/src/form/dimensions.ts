// The dimensions of a task beside its tiles: parts of an interval of time, and the values of one more parameter.
import type { Dimension, JobRequest, Parameter, Step, TaskRequest } from "../api/wire";
import { texts } from "../texts";
import { controlOf, valueOf, type Value } from "./parameters";

export const steps: Step[] = ["day", "week", "month", "quarter", "year"];

// Over is a parameter of which each line is a value.
export interface Over {
  name: string;
  lines: string;
}

// intervalOf returns the parameter whose interval can be split: the first that is required, or else the first.
export function intervalOf(parameters: Parameter[]): Parameter | null {
  const all = parameters.filter(p => controlOf(p) === "interval");
  return all.find(p => !p.optional) ?? all[0] ?? null;
}

// several returns the parameters that can have a value in each line.
export const several = (parameters: Parameter[]): Parameter[] =>
  parameters.filter(p => ["number", "text", "date", "choice"].includes(controlOf(p)));

// valuesIn reads the values of a parameter, one in each line.
export function valuesIn(p: Parameter, lines: string): { values: unknown[] } | { fault: string } {
  const values: unknown[] = [];
  for (const line of lines
    .split("\n")
    .map(l => l.trim())
    .filter(Boolean)) {
    const read = valueOf({ ...p, optional: false, nullable: false }, entryIn(p, line));
    if (read === "absent" || "fault" in read) return { fault: texts.several.badLine(line, faultIn(read)) };
    values.push(read.value);
  }
  if (values.length === 0) return { fault: texts.form.needed };
  if (new Set(values.map(v => JSON.stringify(v))).size < values.length) return { fault: texts.several.twice };
  return { values };
}

const faultIn = (read: Value): string => (read !== "absent" && "fault" in read ? read.fault : texts.form.needed);

// entryIn returns what the control of a parameter would hold for a line. Options are typed as they are shown.
function entryIn(p: Parameter, line: string): string {
  if (controlOf(p) !== "choice") return line;
  const option = p.options.find(o => String(o) === line);
  return JSON.stringify(option ?? line);
}

// partsOf counts the parts of an interval, as the broker splits it: by the calendar in UTC, with weeks from Monday.
export function partsOf([from, to]: [string, string], step: Step): number {
  const [begin, end] = [Date.parse(from), Date.parse(to)];
  if (!(begin < end)) return 0;
  const day = 86_400_000;
  if (step === "day" || step === "week") {
    const [length, monday] = step === "day" ? [day, 0] : [7 * day, 4 * day]; // 1970-01-01 was a Thursday
    return Math.ceil((end - monday) / length) - Math.floor((begin - monday) / length);
  }
  const months = { month: 1, quarter: 3, year: 12 }[step];
  const index = (at: Date): number => Math.floor((at.getUTCFullYear() * 12 + at.getUTCMonth()) / months);
  return index(new Date(end - 1)) - index(new Date(begin)) + 1;
}

// dimensionsOf returns the dimensions of a request; none of a job.
export function dimensionsOf(request: JobRequest | TaskRequest): Dimension[] {
  if ("dimensions" in request && request.dimensions) return request.dimensions;
  return "dimension" in request && request.dimension ? [request.dimension] : [];
}

export const lengthOf = (d: Dimension): number => ("values" in d ? d.values.length : partsOf(d.interval, d.split));

export const isZipped = (request: JobRequest | TaskRequest): boolean =>
  "combine" in request && request.combine === "zip";

// unequal returns the lengths of dimensions that are combined one by one, if they differ.
export function unequal(request: JobRequest | TaskRequest): number[] | null {
  const lengths = dimensionsOf(request).map(lengthOf);
  return isZipped(request) && new Set(lengths).size > 1 ? lengths : null;
}

// jobsOf returns how many jobs a request makes.
export function jobsOf(request: JobRequest | TaskRequest): number {
  const lengths = dimensionsOf(request).map(lengthOf);
  return isZipped(request) ? Math.max(...lengths) : lengths.reduce((n, length) => n * length, 1);
}
