// A new run: the form of a service, its area on the map, and a review before anything starts.
import { useComputed, useSignal, useSignalEffect, type Signal } from "@preact/signals";
import { useEffect, useId, useMemo, useRef } from "preact/hooks";
import type { MultiPolygon, Polygon } from "geojson";
import { get, newKey, post, Refused } from "../api/client";
import { settings } from "../api/session";
import type { Grid, Job, JobRequest, Parameter, Service, TaskRequest, Step, TaskSummary, Tiles } from "../api/wire";
import { cornerTexts, fromMap, readCorners, sizeInKm2, type Area, type Corners } from "../area/area";
import { AreaField, readFirst, type Drawing } from "../area/field";
import { errorText, Failure, Field, Loading, Notice, useTitle } from "../controls";
import { draftFor, fresh, ownCells, type Draft } from "../form/draft";
import { dimensionsOf, intervalOf, isZipped, jobsOf, lengthOf, several, steps, unequal } from "../form/dimensions";
import { ParameterField } from "../form/fields";
import { areaOf, label } from "../form/parameters";
import { faultsOf, formatName, formatsOf, isTask, pathOf, prepare, type Faults } from "../form/request";
import { readCells, tilesRequest } from "../form/tiling";
import { number } from "../format";
import { AreaLayer } from "../map/area_layer";
import { boxAround } from "../map/antimeridian";
import type { Stage } from "../map/stage";
import { MapView } from "../map/view";
import { go, query, setQuery, to } from "../route";
import { texts } from "../texts";
import { Review } from "./review";
import { costOf, useService } from "./service";
import { Origin } from "./services";

const t = texts.run;

export function NewRun({ id }: { id: string }) {
  const { service, error, again } = useService(id);
  useTitle(t.title(service?.title ?? ""));
  if (!service) return <div class="page">{error ? <Failure error={error} again={again} /> : <Loading />}</div>;
  if (!service.parameters) {
    return (
      <div class="page narrow">
        <h1>{t.title(service.title)}</h1>
        <Notice
          kind="error"
          action={
            <button type="button" onClick={again}>
              {texts.tryAgain}
            </button>
          }
        >
          <p>
            {texts.service.noParameters} {service.parameters_error?.message}
          </p>
        </Notice>
      </div>
    );
  }
  return <Form key={service.id} service={service} />;
}

// Split is the tiles of the area, or why there are none.
export type Split =
  | { state: "none" | "counting" }
  | { state: "ready"; tiles: (Polygon | MultiPolygon)[]; ids: string[]; slivers: number[] }
  | { state: "failed"; error: unknown };

function Form({ service }: { service: Service }) {
  const draft = useMemo(() => startOf(service), [service]);
  const faults = useSignal<Faults>({});
  const general = useSignal<string[]>([]);
  const failure = useSignal<unknown>(null);
  const split = useSplit(draft);
  const map = useAreaMap(draft);
  const summary = useRef<HTMLDivElement>(null);
  const beginnings = useSignal(0);
  const { tiles, ids } = split.value.state === "ready" ? split.value : { tiles: [], ids: [] };
  const prepared = prepare(service, draft.value, tiles, ids);
  const change = (part: Partial<Draft>) => (draft.value = { ...draft.value, ...part, key: newKey() });

  useSignalEffect(() => {
    const shown =
      draft.value.split && split.value.state === "ready" && !tooMany(split.value.tiles.length)
        ? split.value
        : { tiles: [], slivers: [] };
    map.layer.value?.showTiles(shown.tiles, shown.slivers);
  });

  const refuse = (found: Faults, others: string[] = []) => {
    faults.value = found;
    general.value = others;
    setQuery({ step: "" });
    setTimeout(() => summary.current?.focus());
  };
  const review = () => {
    const found: Faults = { ...prepared.faults, ...splitFault(draft.value, split.value) };
    if (tooMany(jobsOf(prepared.request)) && !found[":area"])
      found[":several"] = texts.several.overLimit(jobsOf(prepared.request), settings.value.limits.values ?? 0);
    const lengths = unequal(prepared.request);
    if (lengths && !found[":area"]) found[":several"] ??= texts.several.unequal(lengths);
    if (isUnclear(draft.value)) found[":area"] = texts.area.badCoordinates;
    if (Object.keys(found).length > 0) return refuse(found);
    faults.value = {};
    general.value = [];
    setQuery({ step: "review" });
  };
  const begin = (example?: Service["example"]) => {
    draft.value = { ...fresh(service, example ?? {}), ...(example && { title: draft.value.title }) };
    map.set(draft.value.area, true);
    faults.value = {};
    general.value = [];
    beginnings.value++;
  };
  const submit = async () => {
    failure.value = null;
    try {
      const made = await post<Job | TaskSummary>(pathOf(prepared.request), prepared.request, {
        "Idempotency-Key": draft.value.key,
      });
      const path = isTask(prepared.request) ? "tasks" : "jobs";
      change({ started: { path, id: made.id } }); // with a new key: to start it again is another run
      setQuery({ step: "" }); // the way back leads to the form, which still holds what was entered
      go(to([path, String(made.id)]));
    } catch (e) {
      failure.value = e;
      const found = faultsOf(e, service);
      if (Object.keys(found.faults).length + found.general.length > 0) refuse(found.faults, found.general);
    }
  };
  const reviewing =
    query.value.get("step") === "review" &&
    Object.keys(prepared.faults).length === 0 &&
    splitReady(draft.value, split.value);
  return (
    <div class="split" data-view={reviewing ? "review" : "run"} data-state="ready">
      <div class="panel">
        {reviewing ? (
          <Review
            service={service}
            draft={draft.value}
            request={prepared.request}
            submit={submit}
            failure={failure.value}
            back={() => setQuery({ step: "" })}
          />
        ) : (
          <form
            noValidate
            onSubmit={e => {
              e.preventDefault();
              review();
            }}
          >
            <p>
              <a href={to(["services", service.id])}>← {service.title}</a>
            </p>
            <h1>{t.title(service.title)}</h1>
            <p class="soft small">
              <Origin service={service} />
              {costOf(service) && <> · {costOf(service)}</>}
            </p>
            {draft.value.started && <Started run={draft.value.started} />}
            <FaultSummary faults={faults.value} general={general.value} focus={summary} />
            {service.example && !draft.value.area && (
              <p>
                <button type="button" class="example" onClick={() => begin(service.example)}>
                  {texts.form.example}
                </button>
              </p>
            )}
            <Fields
              key={beginnings.value}
              service={service}
              draft={draft.value}
              faults={faults.value}
              change={change}
              map={map}
              split={split.value}
              request={prepared.request}
            />
            <div class="actions">
              <button type="submit" class="primary">
                {t.review}
              </button>
              <button type="button" class="quiet" onClick={() => begin()}>
                {texts.form.reset}
              </button>
            </div>
            <p class="soft small">{texts.form.kept}</p>
          </form>
        )}
      </div>
      <MapView label={texts.area.map} onStage={map.onStage} onFit={map.fit} onFiles={map.upload} />
    </div>
  );
}

// Started says which run was started with what the form holds.
function Started({ run: { path, id } }: { run: NonNullable<Draft["started"]> }) {
  const name = path === "tasks" ? texts.task.task(id) : texts.job.job(id);
  return (
    <div data-started={id}>
      <Notice
        kind="done"
        action={
          <a class="button" href={to([path, String(id)])}>
            {name}
          </a>
        }
      >
        <p>{t.started(name)}</p>
      </Notice>
    </div>
  );
}

// isUnclear reports whether what was typed into the fields of the corners is not the area.
function isUnclear({ area, typed }: Draft): boolean {
  const read = typed?.corners && readCorners(cornerTexts(typed.corners, area));
  return read === "incomplete" || read === "invalid";
}

const tooMany = (tiles: number): boolean => tiles > (settings.value.limits.values ?? Infinity);

// startOf returns the draft: with the values of the service's example if the address asks for it.
function startOf(service: Service): Signal<Draft> {
  const draft = draftFor(service);
  if (query.value.get("from") === "example" && service.example) {
    draft.value = fresh(service, service.example);
    setQuery({ from: "" });
  }
  return draft;
}

const splitReady = (draft: Draft, split: Split): boolean =>
  !draft.split || (split.state === "ready" && Object.keys(splitFault(draft, split)).length === 0);

function splitFault(draft: Draft, split: Split): Faults {
  if (!draft.split || !draft.area) return {};
  if (!tilesRequest(draft)) return { ":area": texts.split.needsCells };
  if (split.state === "failed") return { ":area": splitError(split.error) };
  if (split.state !== "ready") return { ":area": texts.split.counting };
  if (split.tiles.length === 0) return { ":area": texts.split.none };
  return tooMany(split.tiles.length)
    ? { ":area": texts.split.over(split.tiles.length, settings.value.limits.values ?? 0) }
    : {};
}

// splitError says why an area was not split: what is wrong with the request, if that is known.
function splitError(error: unknown): string {
  const faults = error instanceof Refused ? error.errors : [];
  return faults.length > 0 ? faults.map(({ msg }) => msg).join(". ") : errorText(error);
}

// useSplit asks for the tiles of the area while the run is to be split.
function useSplit(draft: Signal<Draft>): Signal<Split> {
  const split = useSignal<Split>({ state: "none" });
  const [area, cells] = [useComputed(() => draft.value.area), useComputed(() => draft.value.cells)]; // compared by identity
  const how = useComputed(() =>
    JSON.stringify({
      ...tilesRequest(draft.value),
      aoi: null,
      cells: null,
      own: draft.value.grid,
      split: draft.value.split,
    }),
  );
  useSignalEffect(() => {
    void [area.value, cells.value, how.value];
    const body = tilesRequest(draft.peek());
    if (!body) {
      split.value = { state: "none" };
      return;
    }
    let dropped = false;
    split.value = { state: "counting" };
    const timer = setTimeout(() => {
      post<Tiles>("tiles", body)
        .then(found => {
          if (!dropped)
            split.value = { state: "ready", tiles: found.geometries, ids: found.ids, slivers: sliversIn(found) };
        })
        .catch((error: unknown) => {
          if (!dropped) split.value = { state: "failed", error };
        });
    }, 250); // an area that is being edited changes often
    return () => {
      dropped = true;
      clearTimeout(timer);
    };
  });
  return split;
}

// sliversIn returns the indexes of the tiles that are smaller than a tenth of the largest.
function sliversIn({ geometries }: Tiles): number[] {
  const sizes = geometries.map(sizeInKm2);
  const whole = sizes.reduce((a, b) => Math.max(a, b), 0);
  return sizes.flatMap((s, i) => (s < whole / 10 ? [i] : []));
}

interface AreaMap {
  layer: Signal<AreaLayer | null>;
  drawing: Signal<Drawing>;
  message: Signal<{ kind: "info" | "error"; text: string } | null>;
  onStage: (stage: Stage) => () => void;
  draw: (kind: Drawing) => void;
  set: (area: Area | null, show: boolean) => void;
  type: (corner: keyof Corners, text: string) => void;
  typeGeoJSON: (text: string) => void;
  upload: (files: FileList) => void;
  fit: () => void;
}

// useAreaMap connects the area of a draft with the map.
function useAreaMap(draft: Signal<Draft>): AreaMap {
  const stage = useRef<Stage | undefined>(undefined);
  const layer = useSignal<AreaLayer | null>(null);
  const drawing = useSignal<Drawing>(null);
  const message = useSignal<AreaMap["message"]["value"]>(null);
  const fit = () => {
    if (draft.value.area) stage.current?.fit(boxAround(draft.value.area.geometry));
  };
  const set = (area: Area | null, show: boolean) => {
    message.value = null;
    const { typed: _, ...others } = draft.value;
    draft.value = { ...others, area, key: newKey() };
    layer.value?.showArea(area?.geometry ?? null);
    if (show) fit();
  };
  return {
    layer,
    drawing,
    message,
    set,
    fit,
    type: (corner, text) => {
      const corners = { ...draft.value.typed?.corners, [corner]: text };
      const read = readCorners(cornerTexts(corners, draft.value.area));
      if (read === "empty") set(null, false);
      else if (typeof read === "object") set(read, true);
      draft.value = { ...draft.value, typed: { ...draft.value.typed, corners } };
    },
    typeGeoJSON: text => (draft.value = { ...draft.value, typed: { ...draft.value.typed, geojson: text } }),
    draw: kind => {
      drawing.value = kind;
      layer.value?.start(kind);
    },
    upload: files => {
      void readFirst(files).then(found => {
        if ("fault" in found) {
          message.value = { kind: "error", text: found.fault };
          return;
        }
        set(found.area, true);
        message.value = found.note ? { kind: "info", text: found.note } : null;
      });
    },
    onStage: made => {
      stage.current = made;
      const own = new AreaLayer(
        made,
        (geometry, how) => set(fromMap(geometry, how === "box"), false),
        () => (drawing.value = null),
      );
      own.showArea(draft.value.area?.geometry ?? null);
      layer.value = own;
      fit();
      return () => own.dispose();
    },
  };
}

function FaultSummary({
  faults,
  general,
  focus,
}: {
  faults: Faults;
  general: string[];
  focus: { current: HTMLDivElement | null };
}) {
  const names = Object.keys(faults);
  if (names.length + general.length === 0) return null;
  const words: Record<string, string> = {
    ":area": texts.form.area,
    ":title": texts.form.title,
    ":format": texts.form.format,
    ":several": texts.split.title,
  };
  return (
    <div ref={focus} tabIndex={-1}>
      <Notice kind="error" title={texts.form.faults(names.length + general.length)}>
        <ul>
          {names.map(n => (
            <li key={n}>
              {words[n] ?? label(n)}: {faults[n]}
            </li>
          ))}
          {general.map(g => (
            <li key={g}>{g}</li>
          ))}
        </ul>
      </Notice>
    </div>
  );
}

function Fields({
  service,
  draft,
  faults,
  change,
  map,
  split,
  request,
}: {
  service: Service;
  draft: Draft;
  faults: Faults;
  change: (part: Partial<Draft>) => void;
  map: AreaMap;
  split: Split;
  request: JobRequest | TaskRequest;
}) {
  const area = areaOf(service.parameters ?? []);
  const formats = formatsOf(service);
  return (
    <>
      <Field label={texts.form.title} help={texts.form.titleHelp} required error={faults[":title"]}>
        {a => (
          <input
            {...a}
            type="text"
            name="title"
            maxLength={200}
            required
            value={draft.title}
            onInput={e => change({ title: e.currentTarget.value })}
          />
        )}
      </Field>
      {area && (
        <AreaField
          draft={draft}
          fault={faults[":area"]}
          required={!area.optional}
          help={area.description}
          drawing={map.drawing.value}
          draw={map.draw}
          set={map.set}
          type={map.type}
          typeGeoJSON={map.typeGeoJSON}
          message={map.message.value}
          upload={map.upload}
        />
      )}
      {service
        .parameters!.filter(p => p !== area)
        .map(p => (
          <ParameterField
            key={p.name}
            parameter={p}
            entry={draft.entries[p.name]}
            fault={faults[p.name]}
            set={entry => change({ entries: { ...draft.entries, [p.name]: entry } })}
          />
        ))}
      <Field label={texts.form.format} required error={faults[":format"]}>
        {a => (
          <select
            {...a}
            name="format"
            value={draft.format || formats[0]}
            onChange={e => change({ format: e.currentTarget.value })}
          >
            {formats.map(f => (
              <option key={f} value={f}>
                {formatName(service, f)}
              </option>
            ))}
          </select>
        )}
      </Field>
      <HowToRun
        service={service}
        draft={draft}
        fault={faults[":several"]}
        change={change}
        split={split}
        request={request}
        hasArea={area !== null}
      />
      {service.homes && (
        <Field label={texts.platforms.where} help={texts.platforms.openHelp}>
          {a => (
            <select {...a} name="at" value={draft.at ?? ""} onChange={e => change({ at: e.currentTarget.value })}>
              <option value="">{texts.platforms.open}</option>
              {service.homes!.map(h => (
                <option key={h.platform} value={h.platform}>
                  {h.platform}
                </option>
              ))}
            </select>
          )}
        </Field>
      )}
      <div class="field">
        <label class="check">
          <input
            type="checkbox"
            name="pin"
            checked={draft.pin ?? false}
            aria-describedby="pin-help"
            onChange={e => change({ pin: e.currentTarget.checked })}
          />{" "}
          {texts.pin.label}
        </label>
        <div class="help" id="pin-help">
          {texts.pin.help}
        </div>
      </div>
    </>
  );
}

// HowToRun asks for the dimensions of a task, and counts its jobs.
function HowToRun({
  service,
  draft,
  fault,
  change,
  split,
  request,
  hasArea,
}: {
  service: Service;
  draft: Draft;
  fault: string | undefined;
  change: (part: Partial<Draft>) => void;
  split: Split;
  request: JobRequest | TaskRequest;
  hasArea: boolean;
}) {
  const parameters = service.parameters ?? [];
  const [time, others] = [intervalOf(parameters), several(parameters)];
  if (!hasArea && !time && others.length === 0) return null;
  const dimensions = dimensionsOf(request);
  const counted = !draft.split || split.state === "ready";
  return (
    <fieldset class="field box" aria-invalid={fault !== undefined || undefined}>
      <legend>{texts.split.title}</legend>
      {hasArea && <SplitField draft={draft} change={change} split={split} />}
      {time && (
        <label>
          {texts.several.time}
          <select
            name="step"
            value={draft.step ?? ""}
            onChange={e => change({ step: e.currentTarget.value as Step | "" })}
          >
            <option value="">{texts.several.whole}</option>
            {steps.map(s => (
              <option key={s} value={s}>
                {texts.several.steps[s]}
              </option>
            ))}
          </select>
        </label>
      )}
      {others.length > 0 && <OverField draft={draft} change={change} others={others} />}
      {dimensions.length > 1 && (
        <label>
          {texts.several.combine}
          <select
            name="combine"
            value={draft.zip ? "zip" : "product"}
            onChange={e => change({ zip: e.currentTarget.value === "zip" })}
          >
            <option value="product">{texts.several.product}</option>
            <option value="zip">{texts.several.zip}</option>
          </select>
        </label>
      )}
      {fault && <div class="fault">{fault}</div>}
      {(draft.step || draft.over) && counted && <Combinations request={request} />}
    </fieldset>
  );
}

// Combinations says how many jobs the dimensions make, or why they make none.
function Combinations({ request }: { request: JobRequest | TaskRequest }) {
  const lengths = unequal(request);
  if (lengths)
    return (
      <p aria-live="polite" data-combinations={0}>
        {texts.several.unequal(lengths)}
      </p>
    );
  const parts = isZipped(request) ? [] : dimensionsOf(request).map(lengthOf);
  return (
    <p aria-live="polite" data-combinations={jobsOf(request)}>
      <strong>{texts.several.jobs(jobsOf(request), parts)}</strong>
    </p>
  );
}

// OverField takes several values of one parameter.
function OverField({
  draft,
  change,
  others,
}: {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
  others: Parameter[];
}) {
  const over = draft.over ?? null;
  const known = others.find(p => p.name === over?.name);
  return (
    <>
      <label>
        {texts.several.over}
        <select
          name="over"
          value={known?.name ?? ""}
          onChange={e =>
            change({
              over: e.currentTarget.value === "" ? null : { name: e.currentTarget.value, lines: over?.lines ?? "" },
            })
          }
        >
          <option value="">{texts.several.overNone}</option>
          {others.map(p => (
            <option key={p.name} value={p.name}>
              {label(p.name)}
            </option>
          ))}
        </select>
      </label>
      {known && (
        <label>
          {texts.several.lines}
          <textarea
            name="values"
            rows={4}
            spellcheck={false}
            value={over!.lines}
            onInput={e => change({ over: { name: known.name, lines: e.currentTarget.value } })}
          />
          <span class="help">
            {known.options.length > 0 ? `${known.options.map(String).join(", ")}. ` : ""}
            {texts.several.linesHelp}
          </span>
        </label>
      )}
    </>
  );
}

function SplitField({ draft, change, split }: { draft: Draft; change: (part: Partial<Draft>) => void; split: Split }) {
  const grids = useSignal<Grid[]>([]);
  useEffect(() => {
    void get<Grid[]>("grids")
      .then(found => {
        grids.value = found;
        if (draft.grid === "" && found[0]) change({ grid: found[0].name });
      })
      .catch(() => undefined);
  }, []);
  return (
    <>
      <div class="row">
        <label class="check">
          <input type="radio" name="split" checked={!draft.split} onChange={() => change({ split: false })} />{" "}
          {texts.split.one}
        </label>
        <label class="check">
          <input type="radio" name="split" checked={draft.split} onChange={() => change({ split: true })} />{" "}
          {texts.split.tiles}
        </label>
      </div>
      {draft.split && (
        <>
          <label>
            {texts.split.grid}
            <select name="grid" value={draft.grid} onChange={e => change({ grid: e.currentTarget.value })}>
              {grids.value.map(g => (
                <option key={g.name} value={g.name}>
                  {texts.split.cells(g.name, number(g.cell_width / 1000), number(g.cell_height / 1000))}
                </option>
              ))}
              <option value={ownCells}>{texts.split.own}</option>
            </select>
          </label>
          {draft.grid === ownCells && <OwnCellsField draft={draft} change={change} />}
          <TilingDetails draft={draft} change={change} />
          <SplitCount split={split} hasArea={draft.area !== null} />
        </>
      )}
    </>
  );
}

// OwnCellsField takes the user's own grid from a file.
function OwnCellsField({ draft: { cells }, change }: { draft: Draft; change: (part: Partial<Draft>) => void }) {
  const fault = useSignal("");
  const choose = async (file: File) => {
    try {
      change({ cells: await readCells(file) });
      fault.value = "";
    } catch (e) {
      fault.value = texts.area.badFile(file.name, (e as Error).message);
    }
  };
  return (
    <label>
      {texts.split.ownFile}
      <input
        type="file"
        name="cells"
        accept=".geojson,.json,application/geo+json"
        aria-invalid={fault.value !== "" || undefined}
        onChange={e => {
          const file = e.currentTarget.files?.[0];
          if (file) void choose(file);
        }}
      />
      <span class="help">
        {cells ? texts.split.ownCount(cells.file, cells.grid.features.length) : texts.split.ownHelp}
      </span>
      {fault.value && (
        <span class="fault" role="alert">
          {fault.value}
        </span>
      )}
    </label>
  );
}

// TilingDetails has what few runs need. It is open at first if something of it is set.
function TilingDetails({ draft, change }: { draft: Draft; change: (part: Partial<Draft>) => void }) {
  const help = useId();
  const { minArea = "", merge = false, buffer = "", fromCentre = false } = draft;
  const open = useMemo(() => minArea !== "" || buffer !== "" || fromCentre, []);
  return (
    <details class="tiling" open={open}>
      <summary>{texts.split.more}</summary>
      <label>
        {texts.split.minArea}
        <input
          type="number"
          name="min_area"
          min={0}
          step="any"
          value={minArea}
          onInput={e => change({ minArea: e.currentTarget.value })}
        />
      </label>
      <label class="check">
        <input
          type="checkbox"
          name="merge"
          checked={merge}
          disabled={minArea === ""}
          onChange={e => change({ merge: e.currentTarget.checked })}
        />{" "}
        {texts.split.merge}
      </label>
      {draft.grid !== ownCells && (
        <label>
          {texts.split.buffer}
          <input
            type="number"
            name="buffer"
            min={0}
            step="any"
            aria-describedby={help}
            value={buffer}
            onInput={e => change({ buffer: e.currentTarget.value })}
          />
          <span class="help" id={help}>
            {texts.split.bufferHelp}
          </span>
        </label>
      )}
      <label>
        {texts.split.order}
        <select
          name="order"
          value={fromCentre ? "centre" : "row"}
          onChange={e => change({ fromCentre: e.currentTarget.value === "centre" })}
        >
          <option value="row">{texts.split.byRow}</option>
          <option value="centre">{texts.split.fromCentre}</option>
        </select>
      </label>
    </details>
  );
}

function SplitCount({ split, hasArea }: { split: Split; hasArea: boolean }) {
  const limit = settings.value.limits.values;
  const count = split.state === "ready" ? split.tiles.length : 0;
  return (
    <div
      aria-live="polite"
      data-tiles={split.state === "ready" ? count : undefined}
      data-slivers={split.state === "ready" ? split.slivers.length : undefined}
    >
      {!hasArea && <p class="soft">{texts.split.needsArea}</p>}
      {split.state === "counting" && <p class="soft">{texts.split.counting}</p>}
      {split.state === "failed" && (
        <Notice kind="error">
          <p>{splitError(split.error)}</p>
        </Notice>
      )}
      {split.state === "ready" && tooMany(count) && (
        <Notice kind="error">
          <p>{texts.split.over(count, limit ?? 0)}</p>
        </Notice>
      )}
      {split.state === "ready" && !tooMany(count) && (
        <>
          <p>
            <strong>{count > 0 ? texts.split.count(count) : texts.split.none}</strong>
          </p>
          {split.slivers.length > 0 && <p class="soft small">{texts.split.slivers(split.slivers.length)}</p>}
        </>
      )}
      {limit !== undefined && !tooMany(count) && <p class="soft small">{texts.split.limit(limit)}</p>}
    </div>
  );
}
