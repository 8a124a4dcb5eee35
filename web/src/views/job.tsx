// One job: its course, parameters, logs, and results.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { address, ask, get, isMissing, mayPass, post, Refused, removeRun } from "../api/client";
import { canRunAgain, runAgain } from "../api/jobs";
import { changeJobs, changeTask } from "../api/tasks";
import { signIn } from "../api/session";
import type { Job, LogPage } from "../api/wire";
import { Act, AttentionNotice, Confirm, Failure, Labels, Loading, Notice, StatusWord, useTitle } from "../controls";
import { between, clockTime, duration, rounded, share, since, time } from "../format";
import { label } from "../form/parameters";
import { Shown } from "../form/shown";
import { RasterLayer } from "../map/raster_layer";
import { boxAround } from "../map/antimeridian";
import { AreaLayer } from "../map/area_layer";
import type { Box, Stage } from "../map/stage";
import { MapView } from "../map/view";
import { go, to } from "../route";
import { ended } from "../status";
import { texts } from "../texts";
import { JobResults, RasterControls, useRasters } from "./results";
import { areaIn } from "../area/area";

const t = texts.job;

// useJob reads a job, and waits for its changes until it has ended.
function useJob(id: number) {
  const job = useSignal<Job | null>(null);
  const error = useSignal<unknown>(null);
  const attempt = useSignal(0);
  const user = signIn.value.state;
  useEffect(() => {
    const abort = new AbortController();
    let timer: number | undefined;
    let etag: string | null = null;
    const read = async () => {
      const answer: { body: Job | null; etag: string | null } = await ask<Job>(
        "GET",
        `unit_jobs/${id}${etag ? "?wait=30" : ""}`,
        { signal: abort.signal, headers: etag ? { "If-None-Match": etag } : {} },
      );
      if (answer.body) job.value = answer.body;
      error.value = null;
      etag = answer.etag;
    };
    const loop = () => {
      read().then(
        () => {
          if (abort.signal.aborted) return;
          if (!job.value || !ended(job.value.status)) timer = window.setTimeout(loop, etag ? 0 : again); // a proxy may remove the ETag
        },
        (e: unknown) => {
          if (abort.signal.aborted) return;
          error.value = e;
          if (mayPass(e)) timer = window.setTimeout(loop, again);
        },
      );
    };
    loop();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [id, attempt.value, user]);
  return { job: job.value?.id === id ? job.value : null, error: error.value, again: () => attempt.value++ };
}

export function JobPage({ id }: { id: number }) {
  const { job, error, again } = useJob(id);
  const layer = useSignal<RasterLayer | null>(null);
  const stage = useSignal<Stage | null>(null);
  const rasters = useRasters(layer.value);
  useTitle(job?.title ?? t.job(id));
  const area = job && areaIn(job.parameters ?? {});
  const key = area ? JSON.stringify(boxAround(area)) : "";
  const fit = () => {
    if (area) stage.value?.fit(boxAround(area) as Box);
  };
  useEffect(() => {
    if (!stage.value || !area) return;
    const shown = new AreaLayer(
      stage.value,
      () => undefined,
      () => undefined,
      false,
    );
    shown.showArea(area);
    fit();
    return () => shown.dispose();
  }, [key, stage.value]);
  if (isMissing(error))
    return (
      <div class="page">
        <Notice
          kind="info"
          action={
            <a class="button" href={to(["jobs"])}>
              {texts.lists.jobs}
            </a>
          }
        >
          <p>{t.gone}</p>
        </Notice>
      </div>
    );
  const task = job?.task_id;
  if (!job) return <div class="page">{error ? <Failure error={error} again={again} /> : <Loading />}</div>;
  return (
    <div class="split" data-view="job" data-state="ready" data-status={job.status}>
      <div class="panel">
        <p>
          {task ? (
            <a href={to(["tasks", String(task)])}>← {texts.task.task(task)}</a>
          ) : (
            <a href={to(["jobs"])}>← {texts.lists.jobs}</a>
          )}
        </p>
        <h1>{job.title}</h1>
        <p role="status">
          <StatusWord status={job.status} />
          {job.progress !== undefined && !ended(job.status) && (
            <span class="soft num"> {share(job.progress / 100)}</span>
          )}{" "}
          <span class="soft small">{t.job(job.id)}</span>
        </p>
        <Labels of={job} kind="jobs" />
        {job.note && <p class="soft">{job.note}</p>}
        {error !== null && <Failure error={error} again={again} />}
        {job.failure && (
          <Notice kind="error" title={t.failed}>
            <p>{job.failure}</p>
          </Notice>
        )}
        {job.attention && (
          <AttentionNotice
            attention={job.attention}
            action={
              job.attention.code === "paused" && task ? (
                <Act label={t.resume} act={() => changeTask(task, "resume")} />
              ) : null
            }
          />
        )}
        {job.warning && (
          <Notice kind="info">
            <p>{job.warning}</p>
          </Notice>
        )}
        <Actions job={job} again={again} />
        <h2>{t.results}</h2>
        {job.status === "finished" ? (
          <JobResults id={id} rasters={rasters} />
        ) : (
          <p class="soft">{ended(job.status) ? texts.results.noneOfJob : texts.results.notYet}</p>
        )}
        <h2>{t.course}</h2>
        <Course job={job} />
        <h2>{t.parameters}</h2>
        <Parameters parameters={job.parameters ?? {}} />
        <Logs job={job} />
        <p>
          <a href={address(`unit_jobs/${id}/document`).href}>{t.definition}</a> ·{" "}
          <a href={address(`unit_jobs/${id}/provenance`).href}>{texts.provenance}</a>
        </p>
      </div>
      <MapView
        label={texts.area.map}
        onFit={fit}
        onStage={made => {
          stage.value = made;
          layer.value = new RasterLayer(made);
        }}
      >
        <RasterControls rasters={rasters} />
      </MapView>
    </div>
  );
}

function Actions({ job, again }: { job: Job; again: () => void }) {
  const task = job.task_id;
  return (
    <div class="row">
      {job.status === "failed" && task && (
        <Act
          label={t.retry}
          class="retry"
          act={async () => {
            await changeJobs(task, "retry", [job.id]);
            again();
          }}
        />
      )}
      {ended(job.status) && !task && canRunAgain(job) && (
        <Confirm
          label={t.again}
          question={texts.lists.againQuestion([job.title])}
          confirm={t.again}
          act={async () => {
            go(to(["jobs", String(await runAgain(job.id))]));
          }}
        />
      )}
      {!ended(job.status) && (
        <Confirm
          label={t.cancel}
          question={t.cancelQuestion}
          confirm={t.cancel}
          danger
          act={async () => {
            await post(`unit_jobs/${job.id}/cancel`);
            again();
          }}
        />
      )}
      <Confirm
        label={t.delete}
        question={t.deleteQuestion(job.title, job.status)}
        confirm={t.delete}
        danger
        also={texts.atPlatform}
        act={async everywhere => {
          await removeRun(`unit_jobs/${job.id}`, everywhere);
          go(task ? to(["tasks", String(task)]) : to(["jobs"]));
        }}
      />
    </div>
  );
}

function Course({ job: j }: { job: Job }) {
  const at = (text?: string) =>
    text && (
      <span title={text}>
        {time(text)} <span class="soft small">({since(text)})</span>
      </span>
    );
  const rows: [string, preact.ComponentChildren][] = [
    [t.created, at(j.created)],
    [t.queue, j.queue_position !== undefined && texts.task.queue(j.queue_position)],
    [t.starts, j.forecast?.start && between(j.forecast.start.early, j.forecast.start.late)],
    [
      t.ends,
      j.forecast && t.expected(between(j.forecast.end.early, j.forecast.end.late), j.forecast.runs, j.forecast.basis),
    ],
    [t.checked, at(j.checked)],
    [t.started, at(j.started)],
    [t.ended, at(j.ended)],
    [t.updated, at(j.updated)],
    [t.duration, j.duration && duration(j.duration)],
    [t.costs, j.costs !== undefined && `${rounded(j.costs)} ${j.cost_unit ?? ""}`],
    [t.platform, j.platform],
    [t.platformJob, j.platform_job_id && <code>{j.platform_job_id}</code>],
  ];
  return (
    <dl class="facts">
      {rows
        .filter(([, v]) => v)
        .map(([name, v]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{v}</dd>
          </div>
        ))}
    </dl>
  );
}

function Parameters({ parameters }: { parameters: Record<string, unknown> }) {
  return (
    <dl class="facts">
      {Object.entries(parameters).map(([name, value]) => (
        <div key={name} data-parameter={name}>
          <dt>{label(name)}</dt>
          <dd>
            <Shown value={value} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

const logsOfPage = 1000;
const again = 5_000; // ms between two reads of a job that runs, or its log, where the broker cannot say when it changes

function Logs({ job }: { job: Job }) {
  const shown = useSignal(false);
  const entries = useSignal<LogPage["logs"]>([]);
  const error = useSignal<unknown>(null);
  const level = useSignal("");
  const over = ended(job.status);
  useEffect(() => {
    if (!shown.value) return;
    const abort = new AbortController();
    let timer: number | undefined;
    const read = async () => {
      const page = await get<LogPage>(
        `unit_jobs/${job.id}/logs?limit=${logsOfPage}&offset=${entries.value.length}`,
        abort.signal,
      );
      if (page.logs.length > 0) entries.value = [...entries.value, ...page.logs];
      error.value = null;
      if (page.logs.length === logsOfPage) await read();
    };
    const loop = () => {
      read()
        .catch((e: unknown) => {
          if (!abort.signal.aborted && !(e instanceof Refused && e.status === 409)) error.value = e;
        })
        .finally(() => {
          if (!over && !abort.signal.aborted) timer = window.setTimeout(loop, again);
        });
    };
    loop();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [job.id, shown.value, over]);
  const found = entries.value.filter(e => !level.value || e.level === level.value);
  return (
    <details class="logs" onToggle={e => (shown.value = e.currentTarget.open)}>
      <summary>
        <h2>{t.logs}</h2>
      </summary>
      <select aria-label={t.level} value={level.value} onChange={e => (level.value = e.currentTarget.value)}>
        <option value="">{t.all}</option>
        {["error", "warning", "info", "debug"].map(l => (
          <option key={l}>{l}</option>
        ))}
      </select>
      {error.value !== null && <Failure error={error.value} />}
      {found.length === 0 && error.value === null && <p class="soft">{t.noLogs}</p>}
      {found.length > 0 && (
        <div class="scroll log" tabIndex={0} role="log" aria-label={t.logs}>
          {found.slice(-1000).map((e, i) => (
            <div key={i} class={`entry ${e.level}`}>
              <span class="soft num">{e.time ? clockTime(e.time) : ""}</span> <b>{e.level}</b> {e.message}
            </div>
          ))}
        </div>
      )}
    </details>
  );
}
