// How the area of a run is split: the grid, what few runs need besides, and how many tiles there are.
import { useSignal } from "@preact/signals";
import { useEffect, useId, useMemo } from "preact/hooks";
import { get } from "../api/client";
import { useResource } from "../api/resource";
import { settings } from "../api/session";
import type { Grid } from "../api/wire";
import { sizeInKm2 } from "../area/area";
import { Notice } from "../controls";
import { ownCells, type Draft } from "../form/draft";
import { splitError, tooMany, type Split } from "../form/split";
import { readCells } from "../form/tiling";
import { groupsOf, km2Of } from "../form/grids";
import { km2, number } from "../format";
import { texts } from "../texts";

export function SplitField({
  draft,
  change,
  split,
}: {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
  split: Split;
}) {
  const grids = useResource(abort => get<Grid[]>("grids", abort), []).value ?? [];
  useEffect(() => {
    if (draft.grid === "" && grids[0]) change({ grid: grids[0].name });
  }, [grids]);
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
              {groupsOf(grids, draft.area ? sizeInKm2(draft.area.geometry) : null, draft.grid).map(
                ({ kind, grids }) => (
                  <optgroup key={kind} label={texts.split.kinds[kind]}>
                    {grids.map(({ grid: g, about }) => (
                      <option key={g.name} value={g.name}>
                        {nameOfGrid(g)}
                        {about !== null && ` · ${texts.split.about(about)}`}
                      </option>
                    ))}
                  </optgroup>
                ),
              )}
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

const nameOfGrid = (g: Grid): string =>
  g.name.startsWith("h3-")
    ? texts.split.hexagons(g.name, km2(km2Of(g)))
    : texts.split.cells(g.name, number(g.cell_width / 1000), number(g.cell_height / 1000));

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
      {split.state === "failed" && <Notice kind="error" text={splitError(split.error)} />}
      {split.state === "ready" && tooMany(count) && <Notice kind="error" text={texts.split.over(count, limit ?? 0)} />}
      {split.state === "ready" && !tooMany(count) && (
        <>
          <p>
            <strong>{count > 0 ? texts.split.count(count) : texts.split.none}</strong>
          </p>
          {split.slivers.length > 0 && <p class="soft small">{texts.split.slivers(split.slivers.length)}</p>}
        </>
      )}
      {limit !== undefined && split.state !== "failed" && !tooMany(count) && (
        <p class="soft small">{texts.split.limit(limit)}</p>
      )}
    </div>
  );
}
