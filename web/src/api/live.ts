// The state of tasks and jobs in the page, kept up to date by streams.
import { signal, type Signal } from "@preact/signals";
import { get, Refused } from "./client";
import { open } from "./stream";
import type { Changes, Job, JobsStatus, Status, Task, TaskSummary, Tile, TileMap } from "./wire";

export interface LiveList<T> {
  items: Signal<Map<number, T> | null>; // null: not known yet
  live: Signal<boolean>;
  close: () => void;
}

// followTasks follows the user's tasks.
export const followTasks = (): LiveList<TaskSummary> =>
  follow("upscaling", (all) => all.upscaling_tasks, (c) => c.upscaling_tasks, (c) => c.removed_upscaling_tasks);

// followJobs follows the user's jobs that belong to no task.
export const followJobs = (): LiveList<Job> =>
  follow("processing", (all) => all.processing_jobs, (c) => c.processing_jobs, (c) => c.removed_processing_jobs);

function follow<T extends { id: number }>(
  filter: string,
  whole: (all: JobsStatus) => T[],
  changed: (c: Changes) => T[] | null,
  removed: (c: Changes) => number[] | null | undefined,
): LiveList<T> {
  const items = signal<Map<number, T> | null>(null);
  const live = signal(false);
  const close = open<JobsStatus>(`job_status?changes=true&parameters=false&filter=${filter}`, {
    whole: (all) => (items.value = new Map(whole(all).map((i) => [i.id, i]))),
    changes: (c) => {
      const next = new Map(items.value);
      for (const i of changed(c) ?? []) next.set(i.id, i);
      for (const id of removed(c) ?? []) next.delete(id);
      items.value = next;
    },
    connected: (now) => (live.value = now),
  });
  return { items, live, close };
}

export interface LiveTask {
  summary: Signal<TaskSummary | null>;
  started: Signal<{ created: string; service: Task["service"] } | null>;
  jobs: Map<number, Job>; // in the order of the values; changed in place
  version: Signal<number>; // changes with jobs
  tiles: Signal<Tile[] | null>;
  live: Signal<boolean>;
  gone: Signal<boolean>;
  // onChange calls back with the statuses that have changed; null: all.
  onChange: (then: (changed: [number, Status][] | null) => void) => void;
  close: () => void;
}

// followTask follows a task with its jobs. The geometries of the tiles do not change, so they are read once.
export function followTask(id: number): LiveTask {
  const task: LiveTask = {
    summary: signal(null), started: signal(null), jobs: new Map(), version: signal(0), tiles: signal(null), live: signal(false), gone: signal(false),
    onChange: (then) => (notify = then),
    close: () => close(),
  };
  let notify: (changed: [number, Status][] | null) => void = () => undefined;
  const tiles = new AbortController();
  let loading = false;
  const loadTiles = async () => {
    if (loading || task.tiles.value) return;
    loading = true;
    try {
      task.tiles.value = (await get<TileMap>(`upscale_tasks/${id}/tiles`, tiles.signal)).features;
    } catch (e) { // the next whole message tries again
      if (e instanceof Refused && (e.status === 404 || e.status === 422)) task.gone.value = true;
    } finally {
      loading = false;
    }
  };
  void loadTiles();
  const stop = open<Task>(`ws/upscale_tasks/${id}?changes=true&parameters=false`, {
    whole: ({ jobs, ...summary }) => {
      task.jobs.clear();
      for (const j of jobs) task.jobs.set(j.id, j);
      task.summary.value = summary;
      task.started.value = { created: summary.created, service: summary.service };
      task.version.value++;
      notify(null);
      void loadTiles();
    },
    changes: (c) => {
      for (const j of c.processing_jobs ?? []) task.jobs.set(j.id, j);
      for (const removed of c.removed_processing_jobs ?? []) task.jobs.delete(removed);
      if (c.upscaling_tasks?.[0]) task.summary.value = c.upscaling_tasks[0];
      task.version.value++;
      notify((c.processing_jobs ?? []).map((j) => [j.id, j.status]));
    },
    connected: (now) => (task.live.value = now),
    gone: () => (task.gone.value = true),
  });
  const close = () => {
    stop();
    tiles.abort();
  };
  return task;
}
