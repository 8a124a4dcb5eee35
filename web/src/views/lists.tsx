// The lists of tasks and of jobs: search, filters in the address, counts, and actions on several at once.
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { post, removeRun } from "../api/client";
import { canRunAgain, runAgain } from "../api/jobs";
import { followJobs, followTasks } from "../api/live";
import { changeTask } from "../api/tasks";
import type { Job, Status, TaskSummary } from "../api/wire";
import {
  Act,
  Confirm,
  errorText,
  Labels,
  labelsOf,
  Loading,
  Notice,
  ProgressBar,
  StatusWord,
  Swatch,
  useTitle,
} from "../controls";
import { number, share } from "../format";
import { query, setQuery, to } from "../route";
import { ended, statuses } from "../status";
import { texts } from "../texts";

const t = texts.lists;

type Entry = (TaskSummary | Job) & { platform?: string };

export function Tasks() {
  return <RunList kind="tasks" />;
}

export function Jobs() {
  return <RunList kind="jobs" />;
}

const atOnce = 100; // entries shown before "show more"

function RunList({ kind }: { kind: "tasks" | "jobs" }) {
  useTitle(t[kind]);
  const list = useMemo(() => (kind === "tasks" ? followTasks() : followJobs()), [kind]);
  useEffect(() => list.close, [list]);
  const selected = useSignal<ReadonlySet<number>>(new Set());
  const most = useSignal(atOnce);
  const all: Entry[] | null = list.items.value && [...list.items.value.values()].sort((a, b) => b.id - a.id);
  const found = all?.filter(matches(query.value)) ?? [];
  const shown = found.slice(0, most.value);
  const chosen = found.filter(e => selected.value.has(e.id));
  return (
    <div class="page" data-view={kind} data-state={all ? "ready" : "loading"}>
      <div class="row between">
        <h1>{t[kind]}</h1>
        {all && <Live live={list.live.value} />}
      </div>
      {!all ? (
        <Loading />
      ) : all.length === 0 ? (
        <Nothing kind={kind} />
      ) : (
        <>
          <Filters kind={kind} all={all} />
          <Selection kind={kind} chosen={chosen} found={found} select={s => (selected.value = s)} />
          {found.length === 0 ? (
            <Notice kind="info">
              <p>{t.none}</p>
            </Notice>
          ) : (
            <Table kind={kind} shown={shown} selected={selected.value} select={s => (selected.value = s)} />
          )}
          {found.length > shown.length && (
            <div class="row">
              <span class="soft">{t.of(shown.length, found.length)}</span>
              <button type="button" onClick={() => (most.value += atOnce)}>
                {texts.more}
              </button>
            </div>
          )}
        </>
      )}
    </div>
  );
}

export function Live({ live }: { live: boolean }) {
  return (
    <span class={live ? "live on" : "live"} role="status">
      {live ? texts.live : texts.notLive}
    </span>
  );
}

function Nothing({ kind }: { kind: "tasks" | "jobs" }) {
  return (
    <Notice
      kind="info"
      action={
        <a class="button primary" href={to(["services"])}>
          {t.pick}
        </a>
      }
    >
      <p>{kind === "tasks" ? t.noTasks : t.noJobs}</p>
    </Notice>
  );
}

// matches returns a test by the filters of the address.
function matches(filters: URLSearchParams): (e: Entry) => boolean {
  const words = (filters.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = filters.getAll("status");
  return e => {
    const text = `${e.id} ${e.title} ${e.platform ?? ""} ${labelsOf(e).join(" ")} ${e.note ?? ""}`.toLowerCase();
    return words.every(w => text.includes(w)) && (wanted.length === 0 || statesOf(e).some(s => wanted.includes(s)));
  };
}

function Filters({ kind, all }: { kind: "tasks" | "jobs"; all: Entry[] }) {
  const wanted = query.value.getAll("status");
  const counts = new Map<State, number>();
  for (const s of all.flatMap(statesOf)) counts.set(s, (counts.get(s) ?? 0) + 1);
  const label = kind === "tasks" ? t.searchTasks : t.searchJobs;
  return (
    <div class="filters" role="search">
      <input
        type="search"
        class="grow"
        aria-label={label}
        placeholder={label}
        defaultValue={query.value.get("q") ?? ""}
        onInput={e => setQuery({ q: e.currentTarget.value })}
      />
      <div class="chips" role="group" aria-label={t.status}>
        {states
          .filter(s => counts.has(s) || wanted.includes(s))
          .map(s => (
            <button
              key={s}
              type="button"
              class="chip"
              data-state={s}
              aria-pressed={wanted.includes(s)}
              onClick={() => setQuery({ status: wanted.includes(s) ? wanted.filter(w => w !== s) : [...wanted, s] })}
            >
              {s === "paused" ? <span aria-hidden="true">‖</span> : <Swatch status={s} />}
              {s === "paused" ? texts.paused : texts.status[s]} <b class="num">{number(counts.get(s) ?? 0)}</b>
            </button>
          ))}
      </div>
    </div>
  );
}

function Table({
  kind,
  shown,
  selected,
  select,
}: {
  kind: "tasks" | "jobs";
  shown: Entry[];
  selected: ReadonlySet<number>;
  select: (s: Set<number>) => void;
}) {
  const toggle = (id: number, on: boolean) => {
    const next = new Set(selected);
    if (on) next.add(id);
    else next.delete(id);
    select(next);
  };
  const everything = shown.every(e => selected.has(e.id));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={t[kind]}>
      <table class="runs">
        <thead>
          <tr>
            <th scope="col">
              <input
                type="checkbox"
                aria-label={t.selectAll}
                checked={everything}
                onChange={e => select(new Set(e.currentTarget.checked ? shown.map(s => s.id) : []))}
              />
            </th>
            <th scope="col">{t.id}</th>
            <th scope="col">{t.name}</th>
            <th scope="col">{t.status}</th>
            <th scope="col">{kind === "tasks" ? t.progress : t.platform}</th>
          </tr>
        </thead>
        <tbody>
          {shown.map(e => (
            <tr key={e.id} data-id={e.id} data-status={e.status}>
              <td>
                <input
                  type="checkbox"
                  aria-label={t.select(e.title)}
                  checked={selected.has(e.id)}
                  onChange={c => toggle(e.id, c.currentTarget.checked)}
                />
              </td>
              <td class="num">{e.id}</td>
              <th scope="row">
                <a href={to([kind, String(e.id)])}>{e.title}</a>
                {(e.attention || ("failure" in e && e.failure)) && (
                  <p class="small soft clamp">{("failure" in e && e.failure) || e.attention?.message}</p>
                )}
                <Labels of={e} kind={kind} />
              </th>
              <td>
                <StatusWord status={e.status} />
                <JobProgress entry={e} />
                {isPaused(e) && <p class="soft small">{texts.paused}</p>}
              </td>
              <td>
                {kind === "jobs"
                  ? e.platform
                  : "counts" in e && e.counts && <ProgressBar counts={e.counts} label={`${t.progress}: ${e.title}`} />}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function JobProgress({ entry: e }: { entry: Entry }) {
  if ("counts" in e || e.progress === undefined || ended(e.status)) return null;
  return <span class="soft num"> {share(e.progress / 100)}</span>;
}

const requestsAtOnce = 4;

// Selection offers what can be done with the selected entries. Those for which it fails stay selected.
function Selection({
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
      {failure.value && (
        <Notice kind="error">
          <p>{failure.value}</p>
        </Notice>
      )}
    </>
  );
}

// countOf returns how many jobs of an entry have a status.
const countOf = (e: Entry, status: Status): number =>
  "counts" in e ? (e.counts?.[status] ?? 0) : Number(e.status === status);

const isPaused = (e: Entry): boolean => "paused" in e && e.paused === true;

// What the chips filter by. A task that is paused has a status besides.
type State = Status | "paused";
const states: State[] = [...statuses, "paused"];
const statesOf = (e: Entry): State[] => (isPaused(e) ? [e.status, "paused"] : [e.status]);
