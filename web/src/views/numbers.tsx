// Results of a task that are numbers: a table of its tiles, their colours on the map, and a file for spreadsheets.
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { Item } from "../api/wire";
import { save, Table } from "../controls";
import { rounded } from "../format";
import { mayBeValue, type Value } from "../map/asset";
import { gradient } from "../map/palette";
import type { TileLayer } from "../map/tile_layer";
import { texts } from "../texts";
import { shownValue, valuesOf } from "./results";

const t = texts.results;

export interface Row {
  id: number; // of the job
  name: string;
  values: Map<string, Value>;
}

// asCSV returns rows as a text that spreadsheets read.
export function asCSV(rows: Row[], columns: string[]): string {
  const cell = (v: Value | undefined) => {
    const text = v === undefined ? "" : String(v);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = rows.map(r => [r.id, r.name, ...columns.map(c => r.values.get(c))].map(cell).join(","));
  return [["job", "tile", ...columns].map(cell).join(","), ...lines].join("\n") + "\n";
}

// columnsOf returns the names of all values, in the order in which they come first.
export const columnsOf = (rows: Row[]): string[] => [...new Set(rows.flatMap(r => [...r.values.keys()]))];

// useNumbers reads the values of the items that have any, each once.
export function useNumbers(items: Item[]): Row[] {
  const read = useMemo(() => new Map<string, Row | "reading">(), []);
  const version = useSignal(0);
  useEffect(() => {
    for (const item of items) {
      if (read.has(item.id) || !Object.values(item.assets).some(mayBeValue)) continue;
      read.set(item.id, "reading");
      void valuesOf(item.assets).then(values => {
        read.set(item.id, { id: Number(item.id), name: item.properties.name ?? "", values });
        version.value++;
      });
    }
  }, [items]);
  return useMemo(
    () => items.map(i => read.get(i.id)).filter((r): r is Row => r !== undefined && r !== "reading"),
    [items, version.value],
  );
}

const most = 100; // rows shown before "show more"

export function Numbers({
  rows,
  task,
  layer,
  place,
}: {
  rows: Row[];
  task: number;
  layer: TileLayer | null;
  place: (job: number) => number;
}) {
  const count = useSignal(most);
  const columns = useMemo(() => columnsOf(rows), [rows]);
  const numeric = columns.filter(c => rows.some(r => typeof r.values.get(c) === "number"));
  const wanted = useSignal<string | null>(null);
  const column = wanted.value ?? numeric[0] ?? "";
  const values = useMemo(() => {
    const found = rows.map((r): [number, Value | undefined] => [r.id, r.values.get(column)]);
    return new Map(found.filter((f): f is [number, number] => typeof f[1] === "number"));
  }, [rows, column]);
  useEffect(() => {
    layer?.colourBy(values.size > 0 ? values : null);
    return () => layer?.colourBy(null);
  }, [layer, values]);
  if (rows.length === 0) return null;
  const [low, high] = [Math.min(...values.values()), Math.max(...values.values())];
  return (
    <section class="numbers" data-rows={rows.length}>
      <div class="row between">
        <label>
          {t.column}
          <select name="column" value={column} onChange={e => (wanted.value = e.currentTarget.value)}>
            {numeric.map(c => (
              <option key={c}>{c}</option>
            ))}
            <option value=":none">{t.noColumn}</option>
          </select>
        </label>
        <button type="button" onClick={() => save(`task-${task}.csv`, asCSV(rows, columns), "text/csv")}>
          {t.csv}
        </button>
      </div>
      {values.size > 0 && (
        <div class="scale">
          <div class="gradient" style={{ backgroundImage: gradient("viridis") }} />
          <div class="row between num">
            <span>{rounded(low)}</span>
            <span>{rounded(high)}</span>
          </div>
        </div>
      )}
      <Table label={t.values} columns={[texts.task.tile, ...columns]}>
        {rows.slice(0, count.value).map(r => (
          <tr key={r.id}>
            <th scope="row">{r.name || place(r.id)}</th>
            {columns.map(c => (
              <td key={c} class="num">
                {r.values.has(c) ? shownValue(r.values.get(c)!) : ""}
              </td>
            ))}
          </tr>
        ))}
      </Table>
      {rows.length > count.value && (
        <button type="button" onClick={() => (count.value += most)}>
          {texts.more}
        </button>
      )}
    </section>
  );
}
