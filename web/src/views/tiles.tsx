// The table of the tiles of a task, and what can be done with some of them.
import { useSignal } from "@preact/signals";
import type { LiveTask } from "../api/live";
import { changeJobs } from "../api/tasks";
import type { Job, Status } from "../api/wire";
import { Act, Confirm, More, StatusWord, Swatch } from "../controls";
import { duration, number, rounded, share } from "../format";
import { query, setQuery, to } from "../route";
import { ended, statuses, type Counts } from "../status";
import { texts } from "../texts";

const t = texts.task;
const rows = 100; // of the table at once

export function Tiles({
  task,
  id,
  counts,
  shown,
  only,
}: {
  task: LiveTask;
  id: number;
  counts: Counts;
  shown: number | null;
  only: ReadonlySet<number> | null; // the jobs of a value of a dimension
}) {
  const wanted = query.value.get("status") as Status | null;
  const most = useSignal(rows);
  const selected = useSignal<ReadonlySet<number>>(new Set());
  const found = [...task.jobs.value.values()].filter(
    j => (!wanted || j.status === wanted) && (!shown || j.id === shown) && (!only || only.has(j.id)),
  );
  const visible = found.slice(0, most.value);
  // others may have been deleted
  const chosen = [...selected.value].map(job => task.jobs.value.get(job)).filter(j => j !== undefined);
  const choose = (jobs: number[], on: boolean) => {
    const next = new Set(selected.value);
    for (const job of jobs)
      if (on) next.add(job);
      else next.delete(job);
    selected.value = next;
  };
  return (
    <>
      <div class="chips" role="group" aria-label={t.status}>
        <button
          type="button"
          class="chip"
          aria-pressed={!wanted && !shown && !only}
          onClick={() => setQuery({ status: "", tile: "", of: "" })}
        >
          {t.all} <b class="num">{number(task.jobs.value.size)}</b>
        </button>
        {statuses
          .filter(s => counts[s])
          .map(s => (
            <button
              key={s}
              type="button"
              class="chip"
              aria-pressed={wanted === s}
              onClick={() => setQuery({ status: wanted === s ? "" : s, tile: "" })}
            >
              <Swatch status={s} />
              {texts.status[s]} <b class="num">{number(counts[s]!)}</b>
            </button>
          ))}
      </div>
      <Selection id={id} chosen={chosen} found={found} choose={choose} clear={() => (selected.value = new Set())} />
      <div class="scroll" tabIndex={0} role="region" aria-label={t.table}>
        <table class="tiles">
          <thead>
            <tr>
              <th scope="col">
                <input
                  type="checkbox"
                  aria-label={texts.lists.selectAll}
                  checked={visible.length > 0 && visible.every(j => selected.value.has(j.id))}
                  onChange={e =>
                    choose(
                      visible.map(j => j.id),
                      e.currentTarget.checked,
                    )
                  }
                />
              </th>
              <th scope="col">{t.tile}</th>
              <th scope="col">{t.status}</th>
              <th scope="col">{t.duration}</th>
              <th scope="col">{t.costs}</th>
            </tr>
          </thead>
          <tbody>
            {visible.map(j => (
              <TileRow
                key={j.id}
                job={j}
                place={task.place(j.id)}
                shown={shown === j.id}
                selected={selected.value.has(j.id)}
                select={on => choose([j.id], on)}
              />
            ))}
          </tbody>
        </table>
      </div>
      <More shown={visible.length} all={found.length} more={() => (most.value += rows)} />
    </>
  );
}

// Selection offers what can be done with the selected tiles: to cancel what has not ended, and to retry what has
// failed.
function Selection({
  id,
  chosen,
  found,
  choose,
  clear,
}: {
  id: number;
  chosen: Job[];
  found: Job[];
  choose: (jobs: number[], on: boolean) => void;
  clear: () => void;
}) {
  if (chosen.length === 0) return null;
  const alive = chosen.filter(j => !ended(j.status));
  const failed = chosen.filter(j => j.status === "failed");
  const ids = new Set(chosen.map(j => j.id));
  const change = async (what: "cancel" | "retry", jobs: Job[]) => {
    await changeJobs(
      id,
      what,
      jobs.map(j => j.id),
    );
    clear();
  };
  return (
    <div class="row selection">
      <span role="status" data-selected={chosen.length}>
        {texts.lists.selected(chosen.length)}
      </span>
      {found.some(j => !ids.has(j.id)) && (
        <button
          type="button"
          class="quiet"
          onClick={() =>
            choose(
              found.map(j => j.id),
              true,
            )
          }
        >
          {texts.lists.selectFound(found.length)}
        </button>
      )}
      {alive.length > 0 && (
        <Confirm
          label={t.cancelSome(alive.length)}
          question={t.cancelSomeQuestion(alive.length)}
          confirm={t.cancel}
          danger
          act={() => change("cancel", alive)}
        />
      )}
      {failed.length > 0 && (
        <Act label={t.retrySome(failed.length)} class="retry-selected" act={() => change("retry", failed)} />
      )}
      <button type="button" class="quiet" onClick={clear}>
        {texts.clear}
      </button>
    </div>
  );
}

// reasonOf says why a tile failed, or what it waits for.
const reasonOf = (j: Job): string | undefined =>
  j.failure ?? (j.attention?.code === "paused" ? t.waitsForResume : j.attention?.message);

function TileRow({
  job: j,
  place,
  shown,
  selected,
  select,
}: {
  job: Job;
  place: number;
  shown: boolean;
  selected: boolean;
  select: (on: boolean) => void;
}) {
  const reason = reasonOf(j);
  return (
    <>
      <tr data-id={j.id} data-status={j.status} class={reason ? "goes-on" : undefined}>
        <td>
          <input
            type="checkbox"
            aria-label={texts.lists.select(t.tileOf(place))}
            checked={selected}
            onChange={e => select(e.currentTarget.checked)}
          />
        </td>
        <th scope="row" class="num">
          <a href={to(["jobs", String(j.id)])}>{number(place)}</a>
          {j.name && <span class="tile-name">{j.name}</span>}
          <button
            type="button"
            class="quiet small"
            aria-pressed={shown}
            title={t.showTile}
            onClick={() => setQuery({ tile: shown ? "" : String(j.id), tab: "tiles" })}
          >
            {t.show}
            <span class="visually-hidden"> {number(place)}</span>
          </button>
        </th>
        <td>
          <StatusWord status={j.status} />
          {j.status === "running" && j.progress !== undefined && (
            <span class="soft num"> {share(j.progress / 100)}</span>
          )}
        </td>
        <td class="num">{j.duration ? duration(j.duration) : ""}</td>
        <td class="num">{j.costs !== undefined && `${rounded(j.costs)} ${j.cost_unit ?? ""}`}</td>
      </tr>
      {reason && (
        <tr class="reason" data-of={j.id}>
          <td />
          <td colSpan={4} class="small soft">
            {reason}
          </td>
        </tr>
      )}
    </>
  );
}
