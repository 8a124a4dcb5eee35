// The title of a run that its user has not named: the service, where, and when.
import type { Service } from "../api/wire";
import { cornersOf } from "../area/area";
import { intervalOf } from "./dimensions";
import type { Draft } from "./draft";

const month = new Intl.DateTimeFormat("en", { month: "short", year: "numeric", timeZone: "UTC" });

export function titleOf(service: Service, { area, entries }: Pick<Draft, "area" | "entries">): string {
  const parts = [service.title];
  if (area) parts.push(area.name?.replace(/\.(geojson|json|kml|zip)$/i, "") ?? middleOf(area));
  const time = intervalOf(service.parameters ?? []);
  const span = time && entries[time.name];
  if (span && typeof span === "object" && !Array.isArray(span) && span.from && span.to) {
    const [first, last] = [new Date(span.from), new Date(Date.parse(span.to) - 1)];
    if (Number.isFinite(first.getTime()) && Number.isFinite(last.getTime()) && first <= last)
      parts.push(month.formatRange(first, last));
  }
  return parts.join(", ").slice(0, 200);
}

function middleOf({ geometry }: NonNullable<Draft["area"]>): string {
  const { west, south, east, north } = cornersOf(geometry);
  const x = (west + (west > east ? east + 360 : east)) / 2;
  const y = (south + north) / 2;
  const shown = (n: number, letters: string) => `${Math.abs(n).toFixed(1)}°${letters[n < 0 ? 1 : 0]}`;
  return `${shown(y, "NS")} ${shown(x > 180 ? x - 360 : x, "EW")}`;
}
