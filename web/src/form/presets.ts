// Spans of time that are often wanted.
import { texts } from "../texts";

export interface Preset {
  name: string;
  from: string; // the first day
  to: string; // the day after the last
}

// presets returns spans that have ended by a day, in UTC.
export function presets(today: Date): Preset[] {
  const [year, month] = [today.getUTCFullYear(), today.getUTCMonth()];
  const first = (y: number, m: number) => new Date(Date.UTC(y, m, 1)).toISOString().slice(0, 10);
  const summer = month >= 9 ? year : year - 1; // the growing season of the north ends with September
  return [
    { name: texts.form.presets.month, from: first(year, month - 1), to: first(year, month) },
    { name: texts.form.presets.quarter, from: first(year, month - 3), to: first(year, month) },
    { name: texts.form.presets.season(summer), from: first(summer, 3), to: first(summer, 9) },
    { name: String(year - 1), from: first(year - 1, 0), to: first(year, 0) },
  ];
}
