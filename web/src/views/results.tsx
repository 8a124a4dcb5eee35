// Results: files with links, and GeoTIFFs on the map.
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { address, get } from "../api/client";
import type { Asset, Collection, Item, ItemPage, MissingResults } from "../api/wire";
import { Act, Copy, Failure, Loading, Outward, safe, save } from "../controls";
import { bytes, rounded } from "../format";
import {
  gradient,
  initialLook,
  isGeoTIFF,
  type Look,
  type Palette,
  type RasterLayer,
  type Stretch,
} from "../map/raster_layer";
import { texts } from "../texts";

const t = texts.results;

export interface Rasters {
  shown: string[];
  reading: number;
  failure: string;
  show: (files: { name: string; href: string }[]) => Promise<void>;
  hide: (name?: string) => void; // without a name: all
  look: Look;
  range: [number, number];
  bands: number;
  choose: (look: Partial<Look>) => void;
}

const readAtOnce = 6;

// useRasters shows files on the map, and tells the view what is shown.
export function useRasters(layer: RasterLayer | null): Rasters {
  const version = useSignal(0);
  const reading = useSignal(0);
  const failure = useSignal("");
  void version.value;
  const show = async (files: { name: string; href: string }[]) => {
    if (!layer) return;
    failure.value = "";
    const waiting = [...files];
    const together = files.length + layer.names.length;
    const worker = async () => {
      for (let f = waiting.shift(); f; f = waiting.shift()) {
        reading.value++;
        await layer.add(f.name, f.href, together).catch((e: unknown) => (failure.value = why(e)));
        reading.value--;
      }
    };
    await Promise.all(Array.from({ length: readAtOnce }, worker));
    layer.draw();
    version.value++;
  };
  return {
    shown: layer?.names ?? [],
    reading: reading.value,
    failure: failure.value,
    show,
    hide: name => {
      if (name) layer?.remove(name);
      else layer?.clear();
      layer?.draw();
      version.value++;
    },
    look: layer?.look ?? initialLook,
    range: layer?.range ?? [0, 1],
    bands: layer && layer.names.length > 0 ? layer.bands : 1,
    choose: look => void layer?.choose(look).then(() => version.value++),
  };
}

// why says why a file cannot be shown. Browsers do not tell a refused cross-origin request from a broken connection.
const why = (e: unknown): string =>
  e instanceof TypeError || (e instanceof Error && /fetch|aggregate|request failed/i.test(e.message + e.name))
    ? t.cors
    : e instanceof Error
      ? t.unreadable(e.message)
      : String(e);

export function RasterControls({ rasters: r }: { rasters: Rasters }) {
  const open = useMemo(() => matchMedia("(min-width: 861px)").matches, []); // on a narrow screen they would cover the map
  if (r.shown.length === 0 && r.reading === 0 && !r.failure) return null;
  const numeric = (side: "low" | "high", text: string) => {
    const n = Number(text.replace(",", "."));
    if (text.trim() !== "" && Number.isFinite(n)) r.choose({ [side]: n });
  };
  const colours = r.look.bands.length === 3;
  return (
    <section class="rasters" aria-label={t.preview} data-shown={r.shown.length}>
      <div aria-live="polite">
        {r.reading > 0 && <p>{t.reading(r.reading)}</p>}
        {r.failure && <p class="fault">{r.failure}</p>}
      </div>
      {r.shown.length > 0 && (
        <details open={open}>
          <summary>{t.look}</summary>
          <div class="row">
            {r.bands > 1 && <BandChoice rasters={r} />}
            {!colours && (
              <Choice
                label={t.palette}
                value={r.look.palette}
                options={t.palettes}
                choose={palette => r.choose({ palette: palette as Palette })}
              />
            )}
            <Choice
              label={t.stretch}
              value={r.look.stretch}
              options={t.stretches}
              choose={stretch => r.choose({ stretch: stretch as Stretch, low: null, high: null })}
            />
          </div>
          {!colours && (
            <>
              <div class="gradient" style={{ backgroundImage: gradient(r.look.palette) }} />
              <div class="row between">
                <label>
                  {t.low}
                  <input
                    type="text"
                    inputMode="decimal"
                    value={rounded(r.range[0])}
                    onChange={e => numeric("low", e.currentTarget.value)}
                  />
                </label>
                <label>
                  {t.high}
                  <input
                    type="text"
                    inputMode="decimal"
                    value={rounded(r.range[1])}
                    onChange={e => numeric("high", e.currentTarget.value)}
                  />
                </label>
              </div>
            </>
          )}
          <div class="row">
            {!colours && (
              <button type="button" class="quiet" onClick={() => r.choose({ low: null, high: null })}>
                {t.auto}
              </button>
            )}
            <button type="button" class="quiet" onClick={() => r.hide()}>
              {t.hideAll}
            </button>
          </div>
        </details>
      )}
    </section>
  );
}

function Choice({
  label,
  value,
  options,
  choose,
  name,
}: {
  label: string;
  value: string;
  options: Record<string, string>;
  choose: (value: string) => void;
  name?: string;
}) {
  return (
    <label>
      {label}
      <select name={name} value={value} onChange={e => choose(e.currentTarget.value)}>
        {Object.entries(options).map(([key, text]) => (
          <option key={key} value={key}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

// BandChoice offers each band and, from three bands on, three of them as a colour picture.
function BandChoice({ rasters: r }: { rasters: Rasters }) {
  const bands = Object.fromEntries(Array.from({ length: r.bands }, (_, i) => [i, t.bandOf(i + 1)]));
  const chosen = r.look.bands;
  const colours = chosen.length === 3;
  const choose = (next: number[]) => r.choose({ bands: next, low: null, high: null });
  return (
    <>
      <Choice
        name="bands"
        label={t.band}
        value={colours ? "colours" : String(chosen[0])}
        options={r.bands >= 3 ? { ...bands, colours: t.colours } : bands}
        choose={v => choose(v === "colours" ? [0, 1, 2] : [Number(v)])}
      />
      {colours &&
        t.channels.map((label, i) => (
          <Choice
            key={label}
            name={`band-${i}`}
            label={label}
            value={String(chosen[i])}
            options={bands}
            choose={v => choose(chosen.map((b, k) => (k === i ? Number(v) : b)))}
          />
        ))}
    </>
  );
}

function Files({ owner, assets, rasters }: { owner: string; assets: Record<string, Asset>; rasters: Rasters | null }) {
  return (
    <ul class="files">
      {Object.entries(assets).map(([name, a]) => {
        const id = `${owner}/${name}`;
        const on = rasters?.shown.includes(id);
        return (
          <li key={id} data-file={name}>
            <div class="grow">
              <Outward href={a.href}>{a.title || name}</Outward>{" "}
              <span class="soft small">
                {[a.type?.split(";")[0], a["file:size"] !== undefined && bytes(a["file:size"])]
                  .filter(Boolean)
                  .join(" · ")}
              </span>
            </div>
            {rasters && isGeoTIFF(a) && (
              <button
                type="button"
                class="quiet small"
                aria-pressed={on}
                onClick={() => (on ? rasters.hide(id) : void rasters.show([{ name: id, href: a.href }]))}
              >
                {on ? t.hide : t.open}
                <span class="visually-hidden"> {name}</span>
              </button>
            )}
            {safe(a.href) && (
              <a class="button quiet small" href={safe(a.href)} download={name} rel="noopener noreferrer">
                {t.download}
                <span class="visually-hidden"> {name}</span>
              </a>
            )}
            <Copy text={a.href} label={t.link} small />
          </li>
        );
      })}
    </ul>
  );
}

// JobResults lists the files of one job.
export function JobResults({ id, rasters }: { id: number; rasters: Rasters | null }) {
  const found = useSignal<Collection | null | undefined>(undefined);
  const error = useSignal<unknown>(null);
  const attempt = useSignal(0);
  useEffect(() => {
    const abort = new AbortController();
    error.value = null;
    get<Collection | null>(`unit_jobs/${id}/results`, abort.signal)
      .then(c => (found.value = c))
      .catch((e: unknown) => {
        if (!abort.signal.aborted) error.value = e;
      });
    return () => abort.abort();
  }, [id, attempt.value]);
  if (error.value !== null) return <Failure error={error.value} again={() => attempt.value++} />;
  if (found.value === undefined) return <Loading />;
  const assets = found.value?.assets ?? {};
  if (Object.keys(assets).length === 0) return <p class="soft">{found.value ? t.none : t.notYet}</p>;
  return (
    <>
      <Files owner={String(id)} assets={assets} rasters={rasters} />
      <Takeaway
        links={async () => Object.values(assets).map(a => a.href)}
        command={`eodispatch download job-${id} --to results`}
        stac={`unit_jobs/${id}/results`}
        name={`job-${id}`}
      />
    </>
  );
}

const itemsOfPage = 100;

// TaskResults lists the files of the finished jobs, and goes on as more of them finish.
export function TaskResults({
  id,
  finished,
  over,
  rasters,
  place,
}: {
  id: number;
  finished: number;
  over: boolean;
  rasters: Rasters;
  place: (job: number) => number;
}) {
  const items = useMemo(() => new ItemReader(id), [id]);
  const known = useSignal<Item[]>([]);
  const missing = useSignal<MissingResults[]>([]);
  const error = useSignal<unknown>(null);
  const most = useSignal(itemsOfPage);
  const show = (all: Item[]) => {
    known.value = all.sort((a, b) => place(Number(a.id)) - place(Number(b.id)));
    missing.value = [...items.missing.values()].sort((a, b) => place(a.id) - place(b.id));
  };
  useEffect(() => {
    if (finished === 0 || known.value.length >= Math.min(finished, most.value)) return;
    let dropped = false;
    const timer = setTimeout(() => {
      items
        .upTo(most.value)
        .then(all => {
          if (!dropped) show(all);
        })
        .catch((e: unknown) => {
          if (!dropped) error.value = e;
        });
    }, 300);
    return () => {
      dropped = true;
      clearTimeout(timer);
    };
  }, [finished, most.value, items]);
  const tiffs = known.value.flatMap(item =>
    Object.entries(item.assets)
      .filter(([, a]) => isGeoTIFF(a))
      .map(([name, a]) => ({ name: `${item.id}/${name}`, href: a.href })),
  );
  const hidden = tiffs.filter(f => !rasters.shown.includes(f.name));
  if (finished === 0) return <p class="soft">{over ? t.noneOfTask : t.notYet}</p>;
  return (
    <div data-items={known.value.length}>
      {error.value !== null && <Failure error={error.value} />}
      <div class="row">
        {hidden.length > 0 && (
          <button type="button" class="mosaic" onClick={() => void rasters.show(hidden)}>
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
        links={() => items.links()}
        command={`eodispatch download task-${id} --to results`}
        stac={`upscale_tasks/${id}/results`}
        name={`task-${id}`}
      />
      <p class="soft small" role="status">
        {t.loaded(known.value.length, Math.max(finished, known.value.length))}
      </p>
      {known.value.map(item => (
        <details key={item.id}>
          <summary>
            {texts.task.tileOf(place(Number(item.id)))}
            {item.properties.name && ` (${item.properties.name})`}
          </summary>
          <Files owner={item.id} assets={item.assets} rasters={rasters} />
        </details>
      ))}
      {missing.value.length > 0 && (
        <div class="missing">
          <p class="fault">{t.missing(missing.value.length)}</p>
          <ul>
            {missing.value.map(m => (
              <li key={m.id} data-missing={m.id}>
                {texts.task.tileOf(place(m.id))}
                {m.name && ` (${m.name})`}: {m.message}
              </li>
            ))}
          </ul>
          {missing.value.some(m => m.temporary) && (
            <Act label={t.tryAgain} act={async () => show(await items.again())} />
          )}
        </div>
      )}
      {finished > known.value.length && known.value.length >= most.value && (
        <button type="button" onClick={() => (most.value += itemsOfPage)}>
          {texts.more}
        </button>
      )}
    </div>
  );
}

// ItemReader reads a task's Items page by page. The last page is read again, because Items are added as jobs finish.
class ItemReader {
  readonly missing = new Map<number, MissingResults>(); // of the pages read
  private readonly all = new Map<string, Item>();
  private cursor = `?limit=${itemsOfPage}`;

  constructor(private readonly task: number) {}

  async upTo(n: number): Promise<Item[]> {
    for (;;) {
      const page = await get<ItemPage>(`upscale_tasks/${this.task}/results/items${this.cursor}`);
      for (const item of page.features) this.add(item);
      for (const m of page["eodispatch:missing"]) this.missing.set(m.id, m);
      const next = page.links.find(l => l.rel === "next");
      if (next) this.cursor = new URL(next.href, address("")).search;
      if (!next || this.all.size >= n) return [...this.all.values()];
    }
  }

  private add(item: Item) {
    this.all.set(item.id, item);
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
    return [...this.all.values()];
  }

  async links(): Promise<string[]> {
    return (await this.upTo(Infinity)).flatMap(item => Object.values(item.assets).map(a => a.href));
  }
}

// Takeaway offers everything at once.
function Takeaway({
  links,
  command,
  stac,
  name,
}: {
  links: () => Promise<string[]>;
  command: string;
  stac: string;
  name: string;
}) {
  return (
    <div class="takeaway">
      <div class="row">
        <Act label={t.list} act={async () => save(`${name}-links.txt`, (await links()).join("\n") + "\n")} />
        <a class="button quiet" href={address(stac).href}>
          {t.stac}
        </a>
      </div>
      <p class="soft small">{t.listHelp}</p>
      <p class="small">
        {t.command} <code>{command}</code> <Copy text={command} />
      </p>
    </div>
  );
}
