// What a task is doing, in tabs beside its map: an overview, its tiles, its results, and its costs.
import type { ComponentChildren } from "preact";
import { address, get } from "../api/client";
import type { LiveTask } from "../api/live";
import { useResource } from "../api/resource";
import type { Job, TaskSummary } from "../api/wire";
import { AttentionNotice, Labels, Notice, ProgressBar } from "../controls";
import { between, left, share, since } from "../format";
import type { TileLayer } from "../map/tile_layer";
import { query, setQuery } from "../route";
import { ended, totals } from "../status";
import { texts } from "../texts";
import { Announcer } from "./announcer";
import { Costs } from "./costs";
import { chosenJobs, Dimensions, useDimensions } from "./dimensions";
import { TaskResults, type Items } from "./items";
import { Live } from "./lists";
import { Numbers, useNumbers } from "./numbers";
import { BudgetLine, Paused, Rest } from "./pause";
import { TaskPlatforms } from "./platforms";
import type { Rasters } from "./rasters";
import { Actions, Failures } from "./task_actions";
import { Tiles } from "./tiles";

const t = texts.task;
const tabs = ["overview", "tiles", "results", "costs"] as const;
type Tab = (typeof tabs)[number];

interface Given {
  task: LiveTask;
  summary: TaskSummary;
  selected: number | null;
  rasters: Rasters;
  items: Items;
  layer: TileLayer | null;
}

export function TaskPanel(given: Given) {
  const { task, summary } = given;
  const counts = summary.counts ?? {};
  const { all, done } = totals(counts);
  const words = counts.failed ? t.doneWith(done, all, counts.failed) : t.done(done, all);
  const dimensions = useDimensions(summary.id);
  const rows = useNumbers(given.items.known);
  const asked = query.value.get("tab") as Tab;
  const tab = tabs.includes(asked) ? asked : given.selected || query.value.has("status") ? "tiles" : "overview";
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
      <div class="row between">
        <strong data-done={done} data-all={all}>
          {words}
        </strong>
        <span class="soft num">{all ? share(done / all) : ""}</span>
      </div>
      <ProgressBar counts={counts} label={t.progress} />
      <Announcer words={words} ended={ended(summary.status)} />
      <Tabs chosen={tab} counts={{ tiles: all, results: counts.finished ?? 0 }}>
        {tab === "overview" && <Overview {...given} live={all - done} dimensions={dimensions} />}
        {tab === "tiles" && (
          <Tiles task={task} id={summary.id} counts={counts} shown={given.selected} only={chosenJobs(dimensions)} />
        )}
        {tab === "results" && (
          <>
            <Numbers rows={rows} task={summary.id} layer={given.layer} place={task.place} />
            <TaskResults
              id={summary.id}
              items={given.items}
              finished={counts.finished ?? 0}
              all={all}
              over={all > 0 && done === all}
              rasters={given.rasters}
              place={task.place}
            />
          </>
        )}
        {tab === "costs" && <Costs task={task} summary={summary} />}
      </Tabs>
    </>
  );
}

// Tabs are links between the parts of the view: the arrow keys lead from one to the next.
function Tabs({
  chosen,
  counts,
  children,
}: {
  chosen: Tab;
  counts: Partial<Record<Tab, number>>;
  children: ComponentChildren;
}) {
  const choose = (tab: Tab) => setQuery({ tab });
  const onKey = (e: KeyboardEvent) => {
    const step = e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? tabs.length - 1 : 0;
    if (step === 0) return;
    const next = tabs[(tabs.indexOf(chosen) + step) % tabs.length]!;
    choose(next);
    document.getElementById(`tab-${next}`)?.focus();
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label={t.tabs.label} onKeyDown={onKey}>
        {tabs.map(tab => (
          <button
            key={tab}
            id={`tab-${tab}`}
            type="button"
            role="tab"
            aria-selected={tab === chosen}
            aria-controls="tab-panel"
            tabIndex={tab === chosen ? 0 : -1}
            onClick={() => choose(tab)}
          >
            {t.tabs[tab]}
            {counts[tab] !== undefined && <span class="soft num"> {counts[tab]}</span>}
          </button>
        ))}
      </div>
      <div class="tab-panel" id="tab-panel" role="tabpanel" aria-labelledby={`tab-${chosen}`} data-tab={chosen}>
        {children}
      </div>
    </>
  );
}

const again = 10_000; // ms between two reads of the place in the queue

function Overview({
  task,
  summary,
  live,
  dimensions,
}: Given & { live: number; dimensions: ReturnType<typeof useDimensions> }) {
  const forecast = summary.forecast;
  return (
    <>
      <Labels of={summary} kind="tasks" />
      {summary.note && <p class="soft">{summary.note}</p>}
      {forecast && (
        <p class="soft small" data-forecast title={between(forecast.end.early, forecast.end.late)}>
          {t.left(left(forecast.end.early, forecast.end.late), forecast.runs, forecast.basis)}
        </p>
      )}
      <Queue task={task} />
      {summary.budget && <BudgetLine budget={summary.budget} />}
      {summary.paused && <Paused summary={summary} />}
      {summary.attention &&
        summary.attention.code !== "paused" &&
        !(summary.paused && summary.attention.code in texts.pause.titles) && (
          <AttentionNotice attention={summary.attention} />
        )}
      {summary.rest && <Rest of={summary.rest} />}
      {summary.warning && <Notice kind="info" text={summary.warning} />}
      <Failures task={task} summary={summary} />
      <Actions task={task} summary={summary} live={live} />
      {summary.homes && <TaskPlatforms id={summary.id} task={task} live={live > 0} />}
      <Dimensions task={task} dimensions={dimensions} />
      <p class="small">
        <a href={address(`upscale_tasks/${summary.id}/provenance`).href}>{texts.provenance}</a>
      </p>
    </>
  );
}

// Queue says how many jobs are before the next tile that waits. Streams do not report that, so it is read anew.
function Queue({ task }: { task: LiveTask }) {
  const waiting = [...task.jobs.value.values()].find(j => j.status === "created" && j.attention?.code !== "paused");
  const { value: job } = useResource<Job>(
    waiting ? abort => get<Job>(`unit_jobs/${waiting.id}`, abort) : null,
    [waiting?.id],
    again,
  );
  if (!waiting || job?.id !== waiting.id || !job.queue_position) return null;
  return <p class="soft small">{t.queueOfNext(job.queue_position)}</p>;
}
