// The results of a task: read as its tiles end, put on the map, and listed.
import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { address, get, mayPass } from "../api/client";
import type { Item, ItemPage, MissingResults } from "../api/wire";
import { Act, Failure } from "../controls";
import { texts } from "../texts";
import type { Rasters } from "./rasters";
import { Files, picturesOf, Takeaway } from "./results";

const t = texts.results;
const itemsOfPage = 100;

export interface Items {
  known: Item[]; // in the order of the tiles
  missing: MissingResults[];
  error: unknown;
  reader: ItemReader;
  again: () => Promise<void>; // asks again for what was missing
}

const pause = 5_000; // ms after a read that failed and may succeed later

// useItems reads the results of the tiles that have finished, and goes on as more of them do.
export function useItems(id: number, finished: number, place: (job: number) => number): Items {
  const reader = useMemo(() => new ItemReader(id), [id]);
  const known = useSignal<Item[]>([]);
  const missing = useSignal<MissingResults[]>([]);
  const error = useSignal<unknown>(null);
  const attempt = useSignal(0);
  const show = (all: Item[]) => {
    known.value = all.sort((a, b) => place(Number(a.id)) - place(Number(b.id)));
    missing.value = [...reader.missing.values()].sort((a, b) => place(a.id) - place(b.id));
  };
  const latest = useRef(finished);
  latest.current = finished;
  const abort = useMemo(() => new AbortController(), [reader]);
  useEffect(() => () => abort.abort(), [abort]);
  const busy = useRef(false);
  useEffect(() => {
    if (finished === 0 || known.value.length >= finished || busy.current) return;
    busy.current = true;
    const next = () => {
      busy.current = false;
      if (!abort.signal.aborted) attempt.value++;
    };
    const read = async () => {
      if (abort.signal.aborted) return;
      try {
        await reader.all(abort.signal, show);
        error.value = null;
        busy.current = false;
        if (latest.current > finished) next(); // what tiles finished meanwhile have is read, too
      } catch (e) {
        if (abort.signal.aborted) return;
        error.value = e;
        if (mayPass(e)) setTimeout(next, pause);
        else busy.current = false;
      }
    };
    setTimeout(() => void read(), 300);
  }, [finished, reader, attempt.value]);
  const again = async () => show(await reader.again());
  return { known: known.value, missing: missing.value, error: error.value, reader, again };
}

export const pictures = (items: Item[]) => items.flatMap(item => picturesOf(item.id, item.assets));

const shown = 100; // items listed before "show more"

// TaskResults lists the files of the finished tiles.
export function TaskResults({
  id,
  items,
  finished,
  all,
  over,
  rasters,
  place,
}: {
  id: number;
  items: Items;
  finished: number;
  all: number; // tiles
  over: boolean;
  rasters: Rasters;
  place: (job: number) => number;
}) {
  const most = useSignal(shown);
  const { known } = items;
  const hidden = pictures(known).filter(f => !rasters.shown.includes(f.name));
  if (finished === 0) return <p class="soft">{over ? t.noneOfTask : t.notYet}</p>;
  return (
    <div data-items={known.length}>
      {items.error !== null && <Failure error={items.error} />}
      <div class="row">
        {hidden.length > 0 && rasters.reading === 0 && (
          <button type="button" class="mosaic" onClick={() => void rasters.show(hidden, all)}>
            {t.mosaic(hidden.length)}
          </button>
        )}
        {rasters.shown.length > 0 && (
          <button type="button" class="quiet" onClick={() => rasters.hide()}>
            {t.hideAll}
          </button>
        )}
      </div>
      <Takeaway
        links={async () =>
          (await items.reader.all(new AbortController().signal)).flatMap(i => Object.values(i.assets).map(a => a.href))
        }
        command={`eodispatch download task-${id} --to results`}
        stac={`upscale_tasks/${id}/results`}
        name={`task-${id}`}
      />
      <p class="soft small" role="status">
        {t.loaded(known.length, Math.max(finished, known.length))}
      </p>
      {known.slice(0, most.value).map(item => (
        <details key={item.id}>
          <summary>
            {texts.task.tileOf(place(Number(item.id)))}
            {item.properties.name && ` (${item.properties.name})`}
          </summary>
          <Files owner={item.id} assets={item.assets} rasters={rasters} />
        </details>
      ))}
      <Missing items={items} place={place} />
      {known.length > most.value && (
        <button type="button" onClick={() => (most.value += shown)}>
          {texts.more}
        </button>
      )}
    </div>
  );
}

function Missing({ items: { missing, again }, place }: { items: Items; place: (job: number) => number }) {
  if (missing.length === 0) return null;
  return (
    <div class="missing">
      <p class="fault">{t.missing(missing.length)}</p>
      <ul>
        {missing.map(m => (
          <li key={m.id} data-missing={m.id}>
            {texts.task.tileOf(place(m.id))}
            {m.name && ` (${m.name})`}: {m.message}
          </li>
        ))}
      </ul>
      {missing.some(m => m.temporary) && <Act label={t.tryAgain} act={again} />}
    </div>
  );
}

// ItemReader reads a task's Items page by page. The last page is read again, because Items are added as jobs finish.
class ItemReader {
  readonly missing = new Map<number, MissingResults>(); // of the pages read
  private readonly items = new Map<string, Item>();
  private cursor = `?limit=${itemsOfPage}`;

  constructor(private readonly task: number) {}

  // all reads all pages that there are, and calls back with what is known after each.
  async all(abort: AbortSignal, then?: (all: Item[]) => void): Promise<Item[]> {
    for (;;) {
      const page = await get<ItemPage>(`upscale_tasks/${this.task}/results/items${this.cursor}`, abort);
      for (const item of page.features) this.add(item);
      for (const m of page["eodispatch:missing"]) this.missing.set(m.id, m);
      const next = page.links.find(l => l.rel === "next");
      if (next) this.cursor = new URL(next.href, address("")).search;
      then?.([...this.items.values()]);
      if (!next) return [...this.items.values()];
    }
  }

  private add(item: Item) {
    this.items.set(item.id, item);
    this.missing.delete(Number(item.id));
  }

  // again reads the Items that were missing and may have come.
  async again(): Promise<Item[]> {
    for (const m of [...this.missing.values()].filter(m => m.temporary)) {
      await get<Item>(`upscale_tasks/${this.task}/results/items/${m.id}`).then(
        item => this.add(item),
        () => undefined,
      ); // it stays missing
    }
    return [...this.items.values()];
  }
}
