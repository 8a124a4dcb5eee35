// A task: a map of its tiles and results beside tabs that say the same, live.
import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { followTask, type LiveTask } from "../api/live";
import type { Job, TaskSummary } from "../api/wire";
import { Gone, Loading, Swatch, useTitle } from "../controls";
import { RasterLayer } from "../map/raster_layer";
import type { Box, Stage } from "../map/stage";
import { TileLayer } from "../map/tile_layer";
import { MapView } from "../map/view";
import { query, setQuery, to } from "../route";
import { statuses, totals } from "../status";
import { texts } from "../texts";
import { Dates } from "./dates";
import { pictures, useItems, type Items } from "./items";
import { RasterControls } from "./look";
import { useRasters, type Rasters } from "./rasters";
import { TaskPanel } from "./task_panel";
import { ValuesHere } from "./values_here";

const t = texts.task;

export function TaskPage({ id }: { id: number }) {
  const task = useMemo(() => followTask(id), [id]);
  useEffect(() => task.close, [task]);
  useTitle(task.summary.value?.title ?? t.task(id));
  const layers = useSignal<{ stage: Stage; tiles: TileLayer; rasters: RasterLayer } | null>(null);
  const rasters = useRasters(layers.value?.rasters ?? null);
  const date = useSignal(""); // of the results on the map
  const shown = useRef(0); // rasters on the map, for those who hear of clicks
  shown.current = rasters.shown.length;
  const selected = Number(query.value.get("tile")) || null;
  const counts = task.summary.value?.counts ?? {};
  const items = useItems(id, counts.finished ?? 0, task.place);
  useStreamed(items, totals(counts).all, rasters);
  const placed = items.known.flatMap(i => (i.bbox ? [i.bbox] : [])); // of a task whose tiles differ in time alone
  const fit = () => {
    const tiles = (task.tiles.value ?? []).filter(x => x.bbox && (!selected || x.id === selected)).map(x => x.bbox!);
    const box = boxAround(tiles.length > 0 ? tiles : placed);
    if (box) layers.value?.stage.fit(box);
  };
  useSignalEffect(() => {
    const [on, tiles] = [layers.value, task.tiles.value];
    if (!on || !tiles) return;
    on.tiles.show(tiles, tile => task.jobs.peek().get(tile.id)?.status ?? tile.properties.status);
    fit();
  });
  useSignalEffect(() =>
    layers.value?.tiles.update([...task.jobs.value.values()].map(({ id, status }: Job) => [id, status])),
  );
  useEffect(() => {
    layers.value?.tiles.select(selected);
    if (selected) fit();
  }, [selected, layers.value]);
  const noTiles = task.tiles.value !== null && task.tiles.value.every(x => !x.geometry);
  useEffect(() => {
    if (noTiles) fit();
  }, [noTiles, placed.length > 0, layers.value]);
  useEffect(() => layers.value?.tiles.fade(rasters.shown.length > 0), [rasters.shown.length > 0]);

  if (task.gone.value) return <Gone kind="tasks" text={t.gone} />;
  const summary = task.summary.value;
  return (
    <div
      class="split wide"
      data-view="task"
      data-state={summary ? "ready" : "loading"}
      data-map={task.tiles.value ? "ready" : "loading"}
    >
      <div class="panel">
        <p>
          <a href={to(["tasks"])}>← {texts.lists.tasks}</a>
        </p>
        {summary ? (
          <TaskPanel
            task={task}
            summary={summary}
            selected={selected}
            rasters={rasters}
            items={items}
            layer={layers.value?.tiles ?? null}
          />
        ) : (
          <Loading />
        )}
      </div>
      <MapView
        label={t.map}
        onFit={fit}
        onStage={made => {
          layers.value = {
            stage: made,
            tiles: new TileLayer(made, job => {
              // else the values at the place are shown
              if (shown.current === 0) setQuery({ tile: String(job), tab: "tiles" });
            }),
            rasters: new RasterLayer(made),
          };
        }}
      >
        {noTiles && placed.length === 0 && <p class="overlay">{t.noMap}</p>}
        <Legend summary={summary} />
        <RasterControls rasters={rasters}>
          <Dates items={items.known} layer={layers.value?.rasters ?? null} wanted={date} />
        </RasterControls>
        <ValuesHere
          key={date.value}
          stage={layers.value?.stage ?? null}
          layer={layers.value?.rasters ?? null}
          bands={rasters.bands}
          nameOf={file => nameOf(task, Number(file.split("/")[0]))}
        />
      </MapView>
    </div>
  );
}

const mostStreamed = 1000; // tiles whose results are put on the map unasked

// useStreamed puts the pictures of tiles on the map as they finish, until the user has removed them.
function useStreamed(items: Items, all: number, rasters: Rasters): void {
  const known = useRef(new Set<string>());
  const wanted = rasters.shown.length > 0 || rasters.reading > 0 || known.current.size === 0;
  useEffect(() => {
    if (all === 0 || all > mostStreamed) return;
    const fresh = pictures(items.known).filter(p => !known.current.has(p.name));
    if (wanted && fresh.length > 0) void rasters.show(fresh, all);
    for (const p of fresh) known.current.add(p.name);
  }, [items.known, all]);
}

const nameOf = (task: LiveTask, job: number): string => task.jobs.peek().get(job)?.name ?? t.tileOf(task.place(job));

function boxAround(boxes: number[][]): Box | null {
  if (boxes.length === 0) return null;
  const crossing = boxes.some(b => b[0]! > b[2]!) || (boxes.some(b => b[2]! > 179) && boxes.some(b => b[0]! < -179));
  const turned = (x: number) => (crossing && x < 0 ? x + 360 : x);
  return boxes.reduce<Box>(
    (all, [w = 0, s = 0, e = 0, n = 0]) => [
      Math.min(all[0], turned(w)),
      Math.min(all[1], s),
      Math.max(all[2], turned(e)),
      Math.max(all[3], n),
    ],
    [Infinity, 90, -Infinity, -90],
  );
}

function Legend({ summary }: { summary: TaskSummary | null }) {
  const present = statuses.filter(s => summary?.counts?.[s]);
  if (present.length === 0) return null;
  return (
    <ul class="legend" aria-label={texts.map.legend}>
      {present.map(s => (
        <li key={s}>
          <Swatch status={s} />
          {texts.status[s]}
        </li>
      ))}
    </ul>
  );
}
