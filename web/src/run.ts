// Tasks and jobs as entries of one list: their states, and what came of them.
import type { Job, Status, TaskSummary } from "./api/wire";
import { ended, statuses } from "./status";
import { texts } from "./texts";

export type Entry = (TaskSummary | Job) & { platform?: string };

// countOf returns how many jobs of an entry have a status.
export const countOf = (e: Entry, status: Status): number =>
  "counts" in e ? (e.counts?.[status] ?? 0) : Number(e.status === status);

export const isPaused = (e: Entry): boolean => "paused" in e && e.paused === true;

// What entries are filtered by. A task that is paused has a status besides.
export type State = Status | "paused";
export const states: State[] = [...statuses, "paused"];
export const statesOf = (e: Entry): State[] => {
  const { status } = outcomeOf(e);
  return isPaused(e) ? [status, "paused"] : [status];
};

// outcomeOf says what came of an entry. The status of a task is finished if any of its jobs has finished; here a task
// that was canceled, or of which jobs failed, is shown as such.
export function outcomeOf(e: Entry): { status: Status; words: string } {
  const words = texts.status[e.status];
  if (!("counts" in e) || !ended(e.status)) return { status: e.status, words };
  const [finished, failed, canceled] = (["finished", "failed", "canceled"] as const).map(s => countOf(e, s));
  const all = finished! + failed! + canceled!;
  if (canceled! > 0 && finished! + failed! > 0)
    return { status: "canceled", words: texts.outcome.canceled(finished!, all) };
  if (failed! > 0 && finished! > 0) return { status: "failed", words: texts.outcome.failed(failed!) };
  return { status: e.status, words };
}
