// Values of parameters as people read them.
import type { ComponentChildren } from "preact";
import { areaOfValue, cornersOf, sizeOf } from "../area/area";
import { date, degrees, timeInUTC } from "../format";
import { texts } from "../texts";

const t = texts.value;
const isDay = (text: unknown): text is string => typeof text === "string" && /^\d{4}-\d{2}-\d{2}$/.test(text);
const isMoment = (text: unknown): text is string =>
  typeof text === "string" && /^\d{4}-\d{2}-\d{2}T[\d:.]+(Z|[+-]\d{2}:\d{2})$/.test(text);

// Shown shows a value: an area by its corners and its size, times in UTC as the form takes them, a list by its members, anything else as
// JSON that can be opened.
export function Shown({ value }: { value: unknown }): ComponentChildren {
  const simple = simply(value);
  if (simple !== null) return <>{simple}</>;
  const area = areaOfValue(value);
  if (area) {
    const { west, south, east, north } = cornersOf(area);
    const all = [west, south, east, north].map(degrees) as [string, string, string, string];
    return (
      <>
        {t.box(...all)} <span class="soft">· {sizeOf(area)}</span>
      </>
    );
  }
  if (Array.isArray(value) && value.length === 2 && value.some(v => isDay(v) || isMoment(v)))
    return <>{t.interval(...(value.map(v => simply(v) ?? "") as [string, string]))}</>;
  const all = Array.isArray(value) ? value.map(simply) : [null];
  if (all.every(v => v !== null) && all.length > 0) return <>{all.join(", ")}</>;
  return (
    <details>
      <summary>{texts.form.json}</summary>
      <pre tabIndex={0}>{JSON.stringify(value, null, 2)}</pre>
    </details>
  );
}

// simply returns the text of a value without members; null for others.
function simply(value: unknown): string | null {
  if (value === null || value === undefined) return t.none;
  if (typeof value === "boolean") return value ? t.yes : t.no;
  if (typeof value === "number") return String(value);
  if (typeof value !== "string") return null;
  return isDay(value) ? date(value) : isMoment(value) ? timeInUTC(value) : value;
}
