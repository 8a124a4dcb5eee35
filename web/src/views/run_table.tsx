// The table of tasks or jobs.
import type { Job } from "../api/wire";
import { duration, number, rounded, share, since } from "../format";
import { Labels, ProgressBar, StatusWord } from "../controls";
import { query, setQuery, to } from "../route";
import { countOf, isPaused, outcomeOf, type Entry } from "../run";
import { ended, statuses } from "../status";
import { texts } from "../texts";

const t = texts.lists;

interface Given {
  kind: "tasks" | "jobs";
  shown: Entry[];
  selected: ReadonlySet<number>;
  select: (s: Set<number>) => void;
}

type Key = "id" | "title" | "status" | "duration" | "costs" | "tiles";

const tilesOf = (e: Entry): number => statuses.reduce((n, s) => n + countOf(e, s), 0);
const keys: Record<Key, (e: Entry) => string | number> = {
  id: e => e.id,
  title: e => e.title.toLowerCase(),
  status: e => outcomeOf(e).words,
  duration: e => (e as Partial<Job>).duration ?? 0,
  costs: e => (e as Partial<Job>).costs ?? 0,
  tiles: tilesOf,
};

// sorted returns entries in an order such as "title" or, from the largest to the smallest, "-costs".
export function sorted(entries: Entry[], order: string | null): Entry[] {
  const name = (order ?? "-id").replace(/^-/, "") as Key;
  const key = keys[name] ?? keys.id;
  const turn = (order ?? "-id").startsWith("-") ? -1 : 1;
  const compare = (a: Entry, b: Entry) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : a.id - b.id);
  return [...entries].sort((a, b) => turn * compare(a, b));
}

const columns: Record<Given["kind"], [key: Key | null, name: string][]> = {
  tasks: [
    ["id", t.id],
    ["title", t.name],
    ["status", t.status],
    [null, t.progress],
    ["tiles", t.tiles],
  ],
  jobs: [
    ["id", t.id],
    ["title", t.name],
    ["status", t.status],
    ["duration", t.duration],
    ["costs", t.costs],
    [null, t.platform],
  ],
};

export function RunTable({ kind, shown, selected, select }: Given) {
  const toggle = (id: number, on: boolean) => {
    const next = new Set(selected);
    if (on) next.add(id);
    else next.delete(id);
    select(next);
  };
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={t[kind]}>
      <table class={`runs ${kind}`}>
        <thead>
          <tr>
            <th scope="col">
              <input
                type="checkbox"
                aria-label={t.selectAll}
                checked={shown.every(e => selected.has(e.id))}
                onChange={e => select(new Set(e.currentTarget.checked ? shown.map(s => s.id) : []))}
              />
            </th>
            {columns[kind].map(([key, name]) => (
              <Head key={name} sort={key} name={name} />
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map(e => (
            <Row key={e.id} kind={kind} entry={e} selected={selected.has(e.id)} toggle={on => toggle(e.id, on)} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

// Head names a column, and sorts by it when it is pressed: from the largest first.
function Head({ sort, name }: { sort: Key | null; name: string }) {
  if (!sort) return <th scope="col">{name}</th>;
  const order = query.value.get("sort") ?? "-id";
  const direction = order === sort ? "ascending" : order === `-${sort}` ? "descending" : undefined;
  return (
    <th scope="col" aria-sort={direction ?? "none"}>
      <button
        type="button"
        class="quiet sort"
        onClick={() => setQuery({ sort: direction === "descending" ? sort : `-${sort}` })}
      >
        {name}
        <span aria-hidden="true">{direction === "ascending" ? " ↑" : direction === "descending" ? " ↓" : ""}</span>
      </button>
    </th>
  );
}

function Row({
  kind,
  entry: e,
  selected,
  toggle,
}: {
  kind: Given["kind"];
  entry: Entry;
  selected: boolean;
  toggle: (on: boolean) => void;
}) {
  const outcome = outcomeOf(e);
  const reason = ("failure" in e && e.failure) || e.attention?.message;
  return (
    <tr data-id={e.id} data-status={e.status} data-outcome={outcome.status}>
      <td>
        <input
          type="checkbox"
          aria-label={t.select(e.title)}
          checked={selected}
          onChange={c => toggle(c.currentTarget.checked)}
        />
      </td>
      <td class="num">{e.id}</td>
      <th scope="row">
        <a href={to([kind, String(e.id)])}>{e.title}</a>{" "}
        <span class="soft small" title={e.created}>
          {since(e.created)}
        </span>
        {reason && <p class="small soft clamp">{reason}</p>}
        <Labels of={e} kind={kind} />
      </th>
      <td>
        <StatusWord status={outcome.status} words={outcome.words} />
        {!("counts" in e) && e.progress !== undefined && !ended(e.status) && (
          <span class="soft num"> {share(e.progress / 100)}</span>
        )}
        {isPaused(e) && <p class="soft small">{texts.paused}</p>}
      </td>
      {kind === "tasks" ? <TaskCells entry={e} /> : <JobCells entry={e} />}
    </tr>
  );
}

function TaskCells({ entry: e }: { entry: Entry }) {
  const [all, finished, failed] = [tilesOf(e), countOf(e, "finished"), countOf(e, "failed")];
  return (
    <>
      <td>{"counts" in e && e.counts && <ProgressBar counts={e.counts} label={`${t.progress}: ${e.title}`} />}</td>
      <td class="num">
        {number(finished)} / {number(all)}
        {failed > 0 && <span class="bad"> · {t.failedOf(failed)}</span>}
      </td>
    </>
  );
}

function JobCells({ entry }: { entry: Entry }) {
  const { duration: ran, costs, cost_unit: unit = "", platform } = entry as Partial<Job>;
  return (
    <>
      <td class="num">{ran ? duration(ran) : ""}</td>
      <td class="num">{costs !== undefined && `${rounded(costs)} ${unit}`}</td>
      <td>{platform}</td>
    </>
  );
}
