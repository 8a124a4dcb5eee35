// Numbers, dates and sizes in the browser's language.
import { signal } from "@preact/signals";

const plain = new Intl.NumberFormat();
const short = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });
const place = new Intl.NumberFormat(undefined, { maximumFractionDigits: 5 });
const percent = new Intl.NumberFormat(undefined, { style: "percent", maximumFractionDigits: 0 });
const moment = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const universal = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short", timeZone: "UTC" });
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" });
const ago = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
const plurals = new Intl.PluralRules("en");

export const number = (n: number): string => plain.format(n);
// rounded returns a number of three digits or more; inField returns it as somebody types it, without marks of thousands.
export const rounded = (n: number): string => (Math.abs(n) >= 1000 ? plain.format(Math.round(n)) : short.format(n));
export const inField = (n: number): string => String(Math.abs(n) >= 1000 ? Math.round(n) : Number(n.toPrecision(3)));
export const degrees = (n: number): string => place.format(n);
export const share = (part: number): string => percent.format(part);
export const time = (text: string): string => moment.format(new Date(text));
export const timeInUTC = (text: string): string => `${universal.format(new Date(text))} UTC`;
export const clockTime = (text: string): string => clock.format(new Date(text));
export const date = (text: string): string => day.format(new Date(text));

// between returns a range of times.
export const between = (early: string, late: string): string => moment.formatRange(new Date(early), new Date(late));

// range returns a range of amounts, or a single one if there is none.
export function range(low: number, likely: number, high: number, show: (n: number) => string): string {
  return show(low) === show(high) ? show(likely) : `${show(low)} – ${show(high)}`;
}

// count returns "1 job", "2 jobs".
export const count = (n: number, one: string, many: string): string =>
  `${number(n)} ${plurals.select(n) === "one" ? one : many}`;

const passed = signal(0); // changes as time passes
setInterval(() => passed.value++, 5_000);

// since returns how long ago a time was. Views that show it are drawn again as time passes.
export function since(text: string): string {
  void passed.value;
  const seconds = (new Date(text).getTime() - Date.now()) / 1000;
  for (const [unit, size] of [
    ["day", 86_400],
    ["hour", 3_600],
    ["minute", 60],
  ] as const) {
    if (Math.abs(seconds) >= size) return ago.format(Math.round(seconds / size), unit);
  }
  return ago.format(Math.round(seconds), "second");
}

export function duration(seconds: number): string {
  const unit = (n: number, name: string) =>
    new Intl.NumberFormat(undefined, { style: "unit", unit: name, unitDisplay: "short" }).format(n);
  if (seconds < 90) return unit(Math.round(seconds), "second");
  if (seconds < 90 * 60) return unit(Math.round(seconds / 60), "minute");
  return unit(Math.round(seconds / 360) / 10, "hour");
}

// left returns how much time is left until a range of times. Views that show it are drawn again as time passes.
export function left(early: string, late: string): string {
  void passed.value;
  const seconds = (text: string) => Math.max(1, (new Date(text).getTime() - Date.now()) / 1000);
  return range(seconds(early), (seconds(early) + seconds(late)) / 2, seconds(late), duration);
}

export function bytes(n: number): string {
  const units = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];
  let i = 0;
  for (; n >= 1000 && i < units.length - 1; i++) n /= 1000;
  return new Intl.NumberFormat(undefined, {
    style: "unit",
    unit: units[i]!,
    unitDisplay: "short",
    maximumSignificantDigits: 3,
  }).format(n);
}

export const km2 = (area: number): string => `${area < 10 ? short.format(area) : plain.format(Math.round(area))} km²`;
