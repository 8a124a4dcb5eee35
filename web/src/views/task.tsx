// A task: a map of its tiles beside a table that says the same, live.
import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { post, remove } from "../api/client";
import { followTask, type LiveTask } from "../api/live";
import type { Job, Status, TaskSummary } from "../api/wire";
import { Act, AttentionNotice, Confirm, Loading, Notice, ProgressBar, StatusWord, Swatch, useTitle } from "../controls";
import { duration, number, rounded, share, since } from "../format";
import { RasterLayer } from "../map/raster_layer";
import type { Box, Stage } from "../map/stage";
import { TileLayer } from "../map/tile_layer";
import { MapView } from "../map/view";
import { go, query, setQuery, to } from "../route";
import { ended, statuses } from "../status";
import { texts } from "../texts";
import { cancelJobs } from "./cancel";
import { Live } from "./lists";
import { RasterControls, TaskResults, useRasters } from "./results";

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
    shown.tiles.show(tiles, (tile) => task.jobs.get(tile.id)?.status ?? tile.properties.status);
    fit();
  });
  useEffect(() => {
    layers.value?.tiles.select(selected);
    if (selected) fit();
  }, [selected, layers.value]);
  useEffect(() => layers.value?.tiles.fade(rasters.shown.length > 0), [rasters.shown.length]);
  task.onChange((changed) => layers.value?.tiles.update(changed ?? [...task.jobs.values()].map((j): [number, Status] => [j.id, j.status])));

  if (task.gone.value) return <div class="page"><Notice kind="info" action={<a class="button" href={to(["tasks"])}>{texts.lists.tasks}</a>}><p>{t.gone}</p></Notice></div>;
  const summary = task.summary.value;
  const noMap = task.tiles.value !== null && task.tiles.value.every((x) => !x.geometry);
  return (
    <div class="split" data-view="task" data-state={summary ? "ready" : "loading"} data-map={task.tiles.value ? "ready" : "loading"}>
      <div class="panel">
        <p><a href={to(["tasks"])}>← {texts.lists.tasks}</a></p>
        {summary ? <Panel task={task} summary={summary} selected={selected} rasters={rasters} /> : <Loading />}
      </div>
      <MapView label={t.map} onFit={fit} onStage={(made) => {
        stage.current = made;
        layers.value = { tiles: new TileLayer(made, (job) => setQuery({ tile: String(job) })), rasters: new RasterLayer(made) };
      }}>
        {noMap && <p class="overlay">{t.noMap}</p>}
        <Legend summary={summary} />
        <RasterControls rasters={rasters} />
      </MapView>
    </div>
  );
}

function boxOf(task: LiveTask, selected: number | null): Box | null {
  const boxes = (task.tiles.value ?? []).filter((x) => x.bbox && (!selected || x.id === selected)).map((x) => x.bbox!);
  if (boxes.length === 0) return null;
  const crossing = boxes.some((b) => b[0]! > b[2]!) || (boxes.some((b) => b[2]! > 179) && boxes.some((b) => b[0]! < -179));
  const turned = (x: number) => (crossing && x < 0 ? x + 360 : x);
  const box = boxes.reduce<Box>((all, [w = 0, s = 0, e = 0, n = 0]) => [Math.min(all[0], turned(w)), Math.min(all[1], s), Math.max(all[2], turned(e)), Math.max(all[3], n)], [Infinity, 90, -Infinity, -90]);
  return box;
}

function Legend({ summary }: { summary: TaskSummary | null }) {
  const present = statuses.filter((s) => summary?.counts?.[s]);
  if (present.length === 0) return null;
  return <ul class="legend" aria-label={texts.map.legend}>{present.map((s) => <li key={s}><Swatch status={s} />{texts.status[s]}</li>)}</ul>;
}

function Panel({ task, summary, selected, rasters }: { task: LiveTask; summary: TaskSummary; selected: number | null; rasters: ReturnType<typeof useRasters> }) {
  const counts = summary.counts ?? {};
  const all = statuses.reduce((n, s) => n + (counts[s] ?? 0), 0);
  const done = (counts.finished ?? 0) + (counts.failed ?? 0) + (counts.canceled ?? 0);
  const words = counts.failed ? t.doneWith(done, all, counts.failed) : t.done(done, all);
  return <>
    <div class="row between"><h1>{summary.title}</h1><Live live={task.live.value} /></div>
    <p class="soft small">{t.task(summary.id)}{task.started.value && <> · <span title={task.started.value.created}>{t.started(since(task.started.value.created))}</span></>}</p>
    <div class="row between"><strong data-done={done} data-all={all}>{words}</strong><span class="soft num">{all ? share(done / all) : ""}</span></div>
    <ProgressBar counts={counts} label={t.progress} />
    <Announcer words={words} ended={ended(summary.status)} />
    {summary.attention && <AttentionNotice attention={summary.attention} />}
    {summary.warning && <Notice kind="info"><p>{summary.warning}</p></Notice>}
    <Failures task={task} summary={summary} />
    <Actions task={task} summary={summary} live={all - done} />
    <Tiles task={task} counts={counts} selected={selected} />
    <h2>{t.results}</h2>
    <TaskResults id={summary.id} finished={counts.finished ?? 0} rasters={rasters} place={task.place} />
  </>;
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
  return <div class="visually-hidden" aria-live="polite">{said.value}</div>;
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
  return <>
    {sorted.map((jobs) => {
      const first = jobs[0]!;
      return (
        <div class="notice error failures" key={first.id} data-failed={jobs.length}>
          <div>
            <strong>{t.failed(jobs.length)}</strong>
            {(first.failure || first.attention) && <p class="small">{first.failure ? <>{t.says} “{first.failure}”</> : first.attention?.message}</p>}
          </div>
        </div>
      );
    })}
    <div class="row"><Act label={t.retryAll(summary.counts?.failed ?? 0)} class="retry" act={() => post(`upscale_tasks/${summary.id}/retry`)} /></div>
  </>;
}

function Actions({ summary, live, task }: { task: LiveTask; summary: TaskSummary; live: number }) {
  const progress = useSignal("");
  return (
    <div class="row">
      {live > 0 && (
        <Confirm label={t.cancel} question={progress.value || t.cancelQuestion(live)} confirm={t.cancel} danger
          act={() => cancelJobs(summary.id, (n, all) => (progress.value = t.canceling(n, all))).finally(() => (progress.value = ""))} />
      )}
      <Confirm label={t.delete} question={t.deleteQuestion(summary.title, task.jobs.size, summary.counts?.finished ?? 0, live)} confirm={t.delete} danger act={async () => {
        await remove(`upscale_tasks/${summary.id}`);
        go(to(["tasks"]));
      }} />
    </div>
  );
}

const rows = 100; // of the table at once

function Tiles({ task, counts, selected }: { task: LiveTask; counts: Partial<Record<Status, number>>; selected: number | null }) {
  void task.version.value;
  const wanted = query.value.get("status") as Status | null;
  const most = useSignal(rows);
  const found: Job[] = [];
  let matching = 0;
  for (const j of task.jobs.values()) {
    if ((wanted && j.status !== wanted) || (selected && j.id !== selected)) continue;
    matching++;
    if (found.length < most.value) found.push(j);
  }
  return <>
    <h2>{t.table}</h2>
    <div class="chips" role="group" aria-label={t.status}>
      <button type="button" class="chip" aria-pressed={!wanted && !selected} onClick={() => setQuery({ status: "", tile: "" })}>{t.all} <b class="num">{number(task.jobs.size)}</b></button>
      {statuses.filter((s) => counts[s]).map((s) => (
        <button key={s} type="button" class="chip" aria-pressed={wanted === s} onClick={() => setQuery({ status: wanted === s ? "" : s, tile: "" })}>
          <Swatch status={s} />{texts.status[s]} <b class="num">{number(counts[s]!)}</b>
        </button>
      ))}
    </div>
    <div class="scroll" tabIndex={0} role="region" aria-label={t.table}>
      <table class="tiles">
        <thead><tr><th scope="col">{t.tile}</th><th scope="col">{t.status}</th><th scope="col">{t.duration}</th><th scope="col">{t.note}</th></tr></thead>
        <tbody>{found.map((j) => <TileRow key={j.id} job={j} place={task.place(j.id)} selected={selected === j.id} />)}</tbody>
      </table>
    </div>
    {matching > found.length && <div class="row"><span class="soft">{texts.lists.of(found.length, matching)}</span><button type="button" onClick={() => (most.value += rows)}>{texts.more}</button></div>}
  </>;
}

function TileRow({ job: j, place, selected }: { job: Job; place: number; selected: boolean }) {
  const note = j.failure ?? j.attention?.message ?? (j.queue_position !== undefined ? t.queue(j.queue_position) : "");
  return (
    <tr data-id={j.id} data-status={j.status}>
      <th scope="row" class="num">
        <a href={to(["jobs", String(j.id)])}>{number(place)}</a>
        <button type="button" class="quiet small" aria-pressed={selected} onClick={() => setQuery({ tile: selected ? "" : String(j.id) })}>{t.showTile}<span class="visually-hidden"> {t.tile} {number(place)}</span></button>
      </th>
      <td><StatusWord status={j.status} />{j.status === "running" && j.progress !== undefined && <span class="soft num"> {share(j.progress / 100)}</span>}</td>
      <td class="num">{j.duration ? duration(j.duration) : ""}{j.costs !== undefined && <span class="soft"> · {rounded(j.costs)}</span>}</td>
      <td class="small soft"><span class="clamp">{note}</span></td>
    </tr>
  );
}
