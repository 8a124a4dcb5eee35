// The lists of tasks and of jobs: search, filters in the address, counts, and actions on several at once.
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { followJobs, followTasks } from "../api/live";
import { labelsOf, Loading, More, Notice, Swatch, useTitle } from "../controls";
import { number } from "../format";
import { query, setQuery, to } from "../route";
import { states, statesOf, type Entry, type State } from "../run";
import { texts } from "../texts";
import { RunTable, sorted } from "./run_table";
import { Selection } from "./run_selection";

const t = texts.lists;

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
  const all: Entry[] | null = list.items.value && sorted([...list.items.value.values()], query.value.get("sort"));
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
            <Notice kind="info" text={t.none} />
          ) : (
            <RunTable kind={kind} shown={shown} selected={selected.value} select={s => (selected.value = s)} />
          )}
          <More shown={shown.length} all={found.length} more={() => (most.value += atOnce)} />
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
