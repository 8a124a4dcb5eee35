// A slider over the dates of a task's results: the map shows those of one date at a time.
import type { Signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { Item } from "../api/wire";
import type { RasterLayer } from "../map/raster_layer";
import { texts } from "../texts";

const t = texts.results;

// dateOf returns the day on which the data of an item begin; "" if that is not known.
const dateOf = ({ properties: p }: Item): string => String(p["start_datetime"] ?? p["datetime"] ?? "").slice(0, 10);

export function Dates({ items, layer, wanted }: { items: Item[]; layer: RasterLayer | null; wanted: Signal<string> }) {
  const dates = useMemo(() => [...new Set(items.map(dateOf))].sort(), [items]);
  const at = Math.max(0, dates.indexOf(wanted.value));
  const several = dates.length > 1;
  const date = dates[at] ?? "";
  useEffect(() => {
    const owners = new Set(items.filter(i => dateOf(i) === date).map(i => i.id));
    layer?.only(several ? name => owners.has(name.split("/")[0]!) : () => true);
  }, [layer, items, date, several]);
  if (!several) return null;
  return (
    <label class="dates">
      <span class="row between">
        {t.date} <output>{date || t.noDate}</output>
      </span>
      <input
        type="range"
        name="date"
        min={0}
        max={dates.length - 1}
        value={at}
        aria-valuetext={date || t.noDate}
        onInput={e => (wanted.value = dates[Number(e.currentTarget.value)] ?? "")}
      />
    </label>
  );
}
