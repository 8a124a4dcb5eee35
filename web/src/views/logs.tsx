// The log of a job.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get, Refused } from "../api/client";
import type { Job, LogPage } from "../api/wire";
import { Failure } from "../controls";
import { clockTime } from "../format";
import { ended } from "../status";
import { texts } from "../texts";

const t = texts.job;
const logsOfPage = 1000;
const again = 5_000; // ms between two reads of the log of a job that runs

export function Logs({ job }: { job: Job }) {
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
