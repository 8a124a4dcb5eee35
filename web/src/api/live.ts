// The state of tasks and jobs in the page, kept up to date by streams.
import { signal, type Signal } from "@preact/signals";
import { get, isMissing } from "./client";
import { open } from "./stream";
import type { Changes, Job, JobsStatus, Task, TaskSummary, Tile, TileMap } from "./wire";

export interface LiveList<T> {
  items: Signal<Map<number, T> | null>; // null: not known yet
  live: Signal<boolean>;
  close: () => void;
}

// followTasks follows the user's tasks.
export const followTasks = (): LiveList<TaskSummary> =>
  follow(
    "upscaling",
    all => all.upscaling_tasks,
    c => c.upscaling_tasks,
    c => c.removed_upscaling_tasks,
  );

// followJobs follows the user's jobs that belong to no task.
export const followJobs = (): LiveList<Job> =>
  follow(
    "processing",
    all => all.processing_jobs,
    c => c.processing_jobs,
    c => c.removed_processing_jobs,
  );

function follow<T extends { id: number }>(
  filter: string,
  whole: (all: JobsStatus) => T[],
  changed: (c: Changes) => T[] | null,
  removed: (c: Changes) => number[] | null | undefined,
): LiveList<T> {
  const items = signal<Map<number, T> | null>(null);
  const live = signal(false);
  const close = open<JobsStatus>(`job_status?changes=true&parameters=false&filter=${filter}`, {
    whole: all => (items.value = new Map(whole(all).map(i => [i.id, i]))),
    changes: c => {
      const next = new Map(items.value);
      for (const i of changed(c) ?? []) next.set(i.id, i);
      for (const id of removed(c) ?? []) next.delete(id);
      items.value = next;
    },
    connected: now => (live.value = now),
  });
  return { items, live, close };
}

export interface LiveTask {
  summary: Signal<TaskSummary | null>;
  started: Signal<{ created: string; service: Task["service"] } | null>;
  jobs: Signal<ReadonlyMap<number, Job>>; // in the order of the values
  place: (job: number) => number; // of the job's value, from 1; 0: not known
  tiles: Signal<Tile[] | null>;
  live: Signal<boolean>;
  gone: Signal<boolean>;
  close: () => void;
}

const headStart = 1_000; // ms in which the tiles are read before the jobs

// followTask follows a task with its jobs. The geometries of the tiles do not change, so they are read once, and before
// the jobs: the broker writes one large list of a user after the other.
export function followTask(id: number): LiveTask {
  let stop = () => undefined as void;
  const abort = new AbortController();
  let places = new Map<number, number>();
  const task: LiveTask = {
    summary: signal(null),
    started: signal(null),
    jobs: signal(new Map()),
    place: job => places.get(job) ?? 0,
    tiles: signal(null),
    live: signal(false),
    gone: signal(false),
    close: () => {
      abort.abort();
      stop();
    },
  };
  const lost = (e: unknown) => {
    if (!isMissing(e)) return;
    task.gone.value = true;
    task.close();
  };
  let loading = false;
  const loadTiles = async () => {
    if (loading || task.tiles.value) return;
    loading = true;
    try {
      task.tiles.value = (await get<TileMap>(`upscale_tasks/${id}/tiles`, abort.signal)).features;
    } catch (e) {
      // the next whole message tries again
      lost(e);
    } finally {
      loading = false;
    }
  };
  const follow = () =>
    open<Task>(`ws/upscale_tasks/${id}?changes=true&parameters=false`, {
      whole: ({ jobs, ...summary }) => {
        task.jobs.value = new Map(jobs.map(j => [j.id, j]));
        places = new Map(jobs.map((j, i) => [j.id, i + 1]));
        task.summary.value = summary;
        task.started.value = { created: summary.created, service: summary.service };
        void loadTiles();
      },
      changes: c => {
        const jobs = new Map(task.jobs.value);
        for (const j of c.processing_jobs ?? []) {
          jobs.set(j.id, j);
          if (!places.has(j.id)) places.set(j.id, places.size + 1); // the state of a large task comes in parts
        }
        for (const removed of c.removed_processing_jobs ?? []) jobs.delete(removed);
        task.jobs.value = jobs;
        if (c.upscaling_tasks?.[0]) task.summary.value = c.upscaling_tasks[0];
      },
      connected: now => (task.live.value = now),
      refused: () => void get(`upscale_tasks/${id}?limit=1&parameters=false`, abort.signal).catch(lost),
      gone: () => (task.gone.value = true),
    });
  const pause = new Promise(resume => setTimeout(resume, headStart));
  void Promise.race([loadTiles(), pause]).then(() => {
    if (!abort.signal.aborted) stop = follow();
  });
  return task;
}
