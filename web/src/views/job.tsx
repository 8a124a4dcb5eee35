// One job: its course, parameters, logs, and results.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { address, ask, isMissing, mayPass, post, removeRun } from "../api/client";
import { canRunAgain, runAgain } from "../api/jobs";
import { changeJobs, changeTask } from "../api/tasks";
import { signIn } from "../api/session";
import type { Job } from "../api/wire";
import {
  Act,
  AttentionNotice,
  Confirm,
  Failure,
  Gone,
  Labels,
  Loading,
  Notice,
  StatusWord,
  useTitle,
} from "../controls";
import { between, left, share } from "../format";
import { RasterLayer } from "../map/raster_layer";
import { boxAround } from "../map/antimeridian";
import { AreaLayer } from "../map/area_layer";
import type { Box, Stage } from "../map/stage";
import { MapView } from "../map/view";
import { go, to } from "../route";
import { ended } from "../status";
import { texts } from "../texts";
import { RasterControls } from "./look";
import { useRasters } from "./rasters";
import { ValuesHere } from "./values_here";
import { EditAgain } from "./edit_again";
import { Course, Parameters } from "./job_facts";
import { Logs } from "./logs";
import { JobResults } from "./results";
import { areaIn } from "../area/area";

const t = texts.job;
const again = 5_000; // ms between two reads of a job that runs, where the broker cannot say when it changes

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
      etag = job.value?.status === "created" ? null : answer.etag; // a new place in the queue changes no ETag
    };
    const loop = () => {
      read().then(
        () => {
          if (abort.signal.aborted) return;
          // a proxy may remove the ETag
          if (!job.value || !ended(job.value.status)) timer = window.setTimeout(loop, etag ? 0 : again);
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
  if (isMissing(error)) return <Gone kind="jobs" text={t.gone} />;
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
        {!ended(job.status) && <progress max={100} value={job.progress} aria-label={texts.lists.progress} />}
        {job.forecast && !ended(job.status) && (
          <p class="soft small" title={between(job.forecast.end.early, job.forecast.end.late)}>
            {texts.task.left(
              left(job.forecast.end.early, job.forecast.end.late),
              job.forecast.runs,
              job.forecast.basis,
            )}
          </p>
        )}
        <Labels of={job} kind="jobs" />
        {job.note && <p class="soft">{job.note}</p>}
        {error !== null && <Failure error={error} again={again} />}
        {job.failure && <Notice kind="error" title={t.failed} text={job.failure} />}
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
        {job.warning && <Notice kind="info" text={job.warning} />}
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
        <ValuesHere stage={stage.value} layer={layer.value} bands={rasters.bands} nameOf={() => job.title} />
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
      {!task && canRunAgain(job) && <EditAgain run={`job-${job.id}`} of={job} />}
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
