// What can be done with several tasks or jobs of a list at once.
import { useSignal } from "@preact/signals";
import { post, removeRun } from "../api/client";
import { canRunAgain, runAgain } from "../api/jobs";
import { changeTask } from "../api/tasks";
import type { Status } from "../api/wire";
import { Act, Confirm, errorText, Notice } from "../controls";
import { countOf, isPaused, type Entry } from "../run";
import { ended, statuses } from "../status";
import { texts } from "../texts";

const t = texts.lists;

const requestsAtOnce = 4;

// Selection offers what can be done with the selected entries. Those for which it fails stay selected.
export function Selection({
  kind,
  chosen,
  found,
  select,
}: {
  kind: "tasks" | "jobs";
  chosen: Entry[];
  found: Entry[];
  select: (s: Set<number>) => void;
}) {
  const progress = useSignal("");
  const failure = useSignal("");
  const path = kind === "tasks" ? "upscale_tasks" : "unit_jobs";
  const each = async (list: Entry[], act: (e: Entry) => Promise<unknown>) => {
    const waiting = [...list];
    const failed = new Map<number, unknown>();
    let done = 0;
    const worker = async () => {
      for (let e = waiting.shift(); e; e = waiting.shift()) {
        const { id } = e;
        await act(e).catch((error: unknown) => failed.set(id, error));
        progress.value = t.working(++done, list.length);
      }
    };
    await Promise.all(Array.from({ length: requestsAtOnce }, worker));
    progress.value = "";
    failure.value = failed.size > 0 ? t.failed(failed.size, errorText([...failed.values()][0])) : "";
    select(new Set(failed.keys()));
  };
  if (chosen.length === 0) return null;
  const alive = chosen.filter(e => !ended(e.status));
  const failed = chosen.filter(e => countOf(e, "failed") > 0);
  const tasks = kind === "tasks";
  const waiting = tasks ? alive.filter(e => !isPaused(e) && countOf(e, "created") > 0) : [];
  const paused = tasks ? chosen.filter(isPaused) : [];
  const repeatable = failed.filter(e => "service" in e && canRunAgain(e));
  const titles = (list: Entry[]) => list.map(e => e.title);
  const all = chosen.reduce((n, e) => n + statuses.reduce((sum, s) => sum + countOf(e, s), 0), 0);
  const sum = (...of: Status[]) => chosen.reduce((n, e) => n + of.reduce((k, s) => k + countOf(e, s), 0), 0);
  return (
    <>
      <div class="row selection">
        <span role="status" data-selected={chosen.length}>
          {progress.value || t.selected(chosen.length)}
        </span>
        {found.length > chosen.length && (
          <button type="button" class="quiet" onClick={() => select(new Set(found.map(e => e.id)))}>
            {t.selectFound(found.length)}
          </button>
        )}
        {waiting.length > 0 && <Act label={t.pause} act={() => each(waiting, e => changeTask(e.id, "pause"))} />}
        {paused.length > 0 && <Act label={t.resume} act={() => each(paused, e => changeTask(e.id, "resume"))} />}
        {alive.length > 0 && (
          <Confirm
            label={t.cancel}
            question={t.cancelQuestion(titles(alive))}
            confirm={t.cancel}
            danger
            act={() => each(alive, e => post(`${path}/${e.id}/cancel`))}
          />
        )}
        {tasks && failed.length > 0 && (
          <Confirm
            label={t.retry}
            question={texts.task.retryAll(sum("failed"))}
            confirm={t.retry}
            act={() => each(failed, e => changeTask(e.id, "retry"))}
          />
        )}
        {!tasks && repeatable.length > 0 && (
          <Confirm
            label={t.again}
            question={t.againQuestion(titles(repeatable))}
            confirm={t.again}
            act={() => each(repeatable, e => runAgain(e.id))}
          />
        )}
        <Confirm
          label={t.delete}
          question={t.deleteQuestion(titles(chosen), all, sum("finished"), all - sum("finished", "failed", "canceled"))}
          confirm={t.delete}
          danger
          also={texts.atPlatform}
          act={everywhere => each(chosen, e => removeRun(`${path}/${e.id}`, everywhere))}
        />
      </div>
      {failure.value && <Notice kind="error" text={failure.value} />}
    </>
  );
}
