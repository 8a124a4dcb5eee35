// What can be done with a whole task, and with its failed tiles by their reasons.
import { removeRun } from "../api/client";
import type { LiveTask } from "../api/live";
import { changeJobs, changeTask } from "../api/tasks";
import type { Job, TaskSummary } from "../api/wire";
import { Act, Confirm } from "../controls";
import { EditAgain } from "./edit_again";
import { go, setQuery, to } from "../route";
import { texts } from "../texts";

const t = texts.task;

// reasonsOf groups failed jobs by what the platform says, whatever ids and numbers are in it; the largest group first.
function reasonsOf(jobs: Iterable<Job>): Job[][] {
  const groups = new Map<string, Job[]>();
  for (const j of jobs) {
    if (j.status !== "failed") continue;
    const reason = (j.failure ?? j.attention?.message ?? "").replace(/[0-9a-f-]{8,}|\d+/gi, "#");
    const group = groups.get(reason);
    if (group) group.push(j);
    else groups.set(reason, [j]);
  }
  return [...groups.values()].sort((a, b) => b.length - a.length);
}

export function Failures({ task, summary }: { task: LiveTask; summary: TaskSummary }) {
  const groups = reasonsOf(task.jobs.value.values());
  if (groups.length === 0) return null;
  return (
    <>
      {groups.map(jobs => (
        <Reason key={jobs[0]!.id} jobs={jobs} task={summary.id} alone={groups.length === 1} />
      ))}
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

function Reason({ jobs, task, alone }: { jobs: Job[]; task: number; alone: boolean }) {
  const first = jobs[0]!;
  const show = () => setQuery({ tab: "tiles", status: "failed", tile: jobs.length === 1 ? String(first.id) : "" });
  return (
    <div class="notice error failures" data-failed={jobs.length}>
      <div>
        <strong>{t.failed(jobs.length)}</strong>
        {first.failure ? (
          <p class="small">
            {t.says} “{first.failure}”
          </p>
        ) : (
          first.attention && <p class="small">{first.attention.message}</p>
        )}
      </div>
      <div class="row">
        <button type="button" class="quiet" onClick={show}>
          {t.showFailed}
        </button>
        {!alone && (
          <Act
            label={t.retrySome(jobs.length)}
            act={() =>
              changeJobs(
                task,
                "retry",
                jobs.map(j => j.id),
              )
            }
          />
        )}
      </div>
    </div>
  );
}

export function Actions({ task, summary, live }: { task: LiveTask; summary: TaskSummary; live: number }) {
  const { id, counts } = summary;
  const started = task.started.value;
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
      {started && <EditAgain run={`task-${id}`} of={started} />}
      <Confirm
        label={t.delete}
        question={t.deleteQuestion(summary.title, task.jobs.value.size, counts?.finished ?? 0, live)}
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
