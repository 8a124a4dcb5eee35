// A task: a map of its tiles beside a table that says the same, live.
import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { address, removeRun } from "../api/client";
import { followTask, type LiveTask } from "../api/live";
import { changeJobs, changeTask } from "../api/tasks";
import type { Job, Status, TaskRest, TaskSummary } from "../api/wire";
import { Act, AttentionNotice, Confirm, Labels, Loading, Notice, ProgressBar, Swatch, useTitle } from "../controls";
import { between, duration, range, rounded, share, since } from "../format";
import { RasterLayer } from "../map/raster_layer";
import type { Box, Stage } from "../map/stage";
import { TileLayer } from "../map/tile_layer";
import { MapView } from "../map/view";
import { go, query, setQuery, to } from "../route";
import { ended, statuses } from "../status";
import { texts } from "../texts";
import { chosenJobs, Dimensions, useDimensions } from "./dimensions";
import { Live } from "./lists";
import { BudgetLine, Paused } from "./pause";
import { TaskPlatforms } from "./platforms";
import { RasterControls, TaskResults, useRasters } from "./results";
import { Tiles } from "./tiles";

const t = texts.task;

export function TaskPage({ id }: { id: number }) {
  const task = useMemo(() => followTask(id), [id]);
  useEffect(() => task.close, [task]);
  useTitle(task.summary.value?.title ?? t.task(id));
  const layers = useSignal<{ tiles: TileLayer; rasters: RasterLayer } | null>(null);
  const rasters = useRasters(layers.value?.rasters ?? null);
  const stage = useRef<Stage | undefined>(undefined);
  const selected = Number(query.value.get("tile")) || null;
  const fit = () => {
    const box = boxOf(task, selected);
    if (box) stage.current?.fit(box);
  };
  useSignalEffect(() => {
    const [shown, tiles] = [layers.value, task.tiles.value];
    if (!shown || !tiles) return;
    shown.tiles.show(tiles, tile => task.jobs.get(tile.id)?.status ?? tile.properties.status);
    fit();
  });
  useEffect(() => {
    layers.value?.tiles.select(selected);
    if (selected) fit();
  }, [selected, layers.value]);
  useEffect(() => layers.value?.tiles.fade(rasters.shown.length > 0), [rasters.shown.length]);
  task.onChange(changed =>
    layers.value?.tiles.update(changed ?? [...task.jobs.values()].map((j): [number, Status] => [j.id, j.status])),
  );

  if (task.gone.value)
    return (
      <div class="page">
        <Notice
          kind="info"
          action={
            <a class="button" href={to(["tasks"])}>
              {texts.lists.tasks}
            </a>
          }
        >
          <p>{t.gone}</p>
        </Notice>
      </div>
    );
  const summary = task.summary.value;
  const noMap = task.tiles.value !== null && task.tiles.value.every(x => !x.geometry);
  return (
    <div
      class="split"
      data-view="task"
      data-state={summary ? "ready" : "loading"}
      data-map={task.tiles.value ? "ready" : "loading"}
    >
      <div class="panel">
        <p>
          <a href={to(["tasks"])}>← {texts.lists.tasks}</a>
        </p>
        {summary ? <Panel task={task} summary={summary} selected={selected} rasters={rasters} /> : <Loading />}
      </div>
      <MapView
        label={t.map}
        onFit={fit}
        onStage={made => {
          stage.current = made;
          layers.value = {
            tiles: new TileLayer(made, job => setQuery({ tile: String(job) })),
            rasters: new RasterLayer(made),
          };
        }}
      >
        {noMap && <p class="overlay">{t.noMap}</p>}
        <Legend summary={summary} />
        <RasterControls rasters={rasters} />
      </MapView>
    </div>
  );
}

function boxOf(task: LiveTask, selected: number | null): Box | null {
  const boxes = (task.tiles.value ?? []).filter(x => x.bbox && (!selected || x.id === selected)).map(x => x.bbox!);
  if (boxes.length === 0) return null;
  const crossing = boxes.some(b => b[0]! > b[2]!) || (boxes.some(b => b[2]! > 179) && boxes.some(b => b[0]! < -179));
  const turned = (x: number) => (crossing && x < 0 ? x + 360 : x);
  const box = boxes.reduce<Box>(
    (all, [w = 0, s = 0, e = 0, n = 0]) => [
      Math.min(all[0], turned(w)),
      Math.min(all[1], s),
      Math.max(all[2], turned(e)),
      Math.max(all[3], n),
    ],
    [Infinity, 90, -Infinity, -90],
  );
  return box;
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

function Panel({
  task,
  summary,
  selected,
  rasters,
}: {
  task: LiveTask;
  summary: TaskSummary;
  selected: number | null;
  rasters: ReturnType<typeof useRasters>;
}) {
  const counts = summary.counts ?? {};
  const all = statuses.reduce((n, s) => n + (counts[s] ?? 0), 0);
  const done = (counts.finished ?? 0) + (counts.failed ?? 0) + (counts.canceled ?? 0);
  const live = all - done;
  const dimensions = useDimensions(summary.id);
  const words = counts.failed ? t.doneWith(done, all, counts.failed) : t.done(done, all);
  return (
    <>
      <div class="row between">
        <h1>{summary.title}</h1>
        <Live live={task.live.value} />
      </div>
      <p class="soft small">
        {t.task(summary.id)}
        {task.started.value && (
          <>
            {" "}
            · <span title={task.started.value.created}>{t.started(since(task.started.value.created))}</span>
          </>
        )}
      </p>
      <Labels of={summary} kind="tasks" />
      {summary.note && <p class="soft">{summary.note}</p>}
      <div class="row between">
        <strong data-done={done} data-all={all}>
          {words}
        </strong>
        <span class="soft num">{all ? share(done / all) : ""}</span>
      </div>
      <ProgressBar counts={counts} label={t.progress} />
      <Announcer words={words} ended={ended(summary.status)} />
      {summary.forecast && (
        <p class="soft small" data-forecast>
          {t.ends(
            between(summary.forecast.end.early, summary.forecast.end.late),
            summary.forecast.runs,
            summary.forecast.basis,
          )}
        </p>
      )}
      {summary.budget && <BudgetLine budget={summary.budget} />}
      {summary.paused && <Paused summary={summary} />}
      {summary.attention &&
        summary.attention.code !== "paused" &&
        !(summary.paused && summary.attention.code in texts.pause.titles) && (
          <AttentionNotice attention={summary.attention} />
        )}
      {summary.rest && <Rest of={summary.rest} />}
      {summary.warning && (
        <Notice kind="info">
          <p>{summary.warning}</p>
        </Notice>
      )}
      <Failures task={task} summary={summary} />
      <Actions task={task} summary={summary} live={live} />
      {summary.homes && <TaskPlatforms id={summary.id} task={task} live={live > 0} />}
      <Dimensions task={task} dimensions={dimensions} />
      <Tiles task={task} id={summary.id} counts={counts} shown={selected} only={chosenJobs(dimensions)} />
      <h2>{t.results}</h2>
      <TaskResults
        id={summary.id}
        finished={counts.finished ?? 0}
        over={all > 0 && live === 0}
        rasters={rasters}
        place={task.place}
      />
      <p class="small">
        <a href={address(`upscale_tasks/${summary.id}/provenance`).href}>{texts.provenance}</a>
      </p>
    </>
  );
}

// Rest tells what the tiles that wait for their owner need.
function Rest({ of: r }: { of: TaskRest }) {
  if (!r.costs && !r.seconds) return null;
  return (
    <Notice kind="info" title={t.rest(r.jobs)}>
      {r.costs && (
        <p>
          {t.restCosts(
            `${range(r.costs.low, r.costs.likely, r.costs.high, rounded)} ${r.cost_unit}`.trim(),
            r.cost_runs,
            r.basis,
          )}
        </p>
      )}
      {r.seconds && (
        <p>{t.restTakes(range(r.seconds.low, r.seconds.likely, r.seconds.high, duration), r.seconds_runs, r.basis)}</p>
      )}
    </Notice>
  );
}

const announceEvery = 10_000; // ms; a screen reader would not finish more

// Announcer tells the progress to screen readers, not more often than they can read.
function Announcer({ words, ended: over }: { words: string; ended: boolean }) {
  const said = useSignal("");
  const last = useRef(0);
  useEffect(() => {
    const wait = over ? 0 : Math.max(0, last.current + announceEvery - Date.now());
    const timer = setTimeout(() => {
      last.current = Date.now();
      said.value = words;
    }, wait);
    return () => clearTimeout(timer);
  }, [words, over]);
  return (
    <div class="visually-hidden" aria-live="polite">
      {said.value}
    </div>
  );
}

// Failures groups failed tiles by what the platform says, whatever ids and numbers are in it.
function Failures({ task, summary }: { task: LiveTask; summary: TaskSummary }) {
  void task.version.value;
  const groups = new Map<string, Job[]>();
  for (const j of task.jobs.values()) {
    if (j.status !== "failed") continue;
    const reason = (j.failure ?? j.attention?.message ?? "").replace(/[0-9a-f-]{8,}|\d+/gi, "#");
    groups.set(reason, [...(groups.get(reason) ?? []), j]);
  }
  if (groups.size === 0) return null;
  const sorted = [...groups.values()].sort((a, b) => b.length - a.length);
  return (
    <>
      {sorted.map(jobs => {
        const first = jobs[0]!;
        return (
          <div class="notice error failures" key={first.id} data-failed={jobs.length}>
            <div>
              <strong>{t.failed(jobs.length)}</strong>
              {(first.failure || first.attention) && (
                <p class="small">
                  {first.failure ? (
                    <>
                      {t.says} “{first.failure}”
                    </>
                  ) : (
                    first.attention?.message
                  )}
                </p>
              )}
            </div>
            {groups.size > 1 && (
              <div class="row">
                <Act
                  label={t.retrySome(jobs.length)}
                  act={() =>
                    changeJobs(
                      summary.id,
                      "retry",
                      jobs.map(j => j.id),
                    )
                  }
                />
              </div>
            )}
          </div>
        );
      })}
      <div class="row">
        <Act
          label={t.retryAll(summary.counts?.failed ?? 0)}
          class="retry"
          act={() => changeTask(summary.id, "retry")}
        />
      </div>
    </>
  );
}

function Actions({ task, summary, live }: { task: LiveTask; summary: TaskSummary; live: number }) {
  const { id, counts } = summary;
  return (
    <div class="row">
      {!summary.paused && (counts?.created ?? 0) > 0 && <Act label={t.pause} act={() => changeTask(id, "pause")} />}
      {live > 0 && (
        <Confirm
          label={t.cancel}
          question={t.cancelQuestion(live)}
          confirm={t.cancel}
          danger
          act={() => changeTask(id, "cancel")}
        />
      )}
      <Confirm
        label={t.delete}
        question={t.deleteQuestion(summary.title, task.jobs.size, counts?.finished ?? 0, live)}
        confirm={t.delete}
        danger
        also={texts.atPlatform}
        act={async everywhere => {
          await removeRun(`upscale_tasks/${id}`, everywhere);
          go(to(["tasks"]));
        }}
      />
    </div>
  );
}
