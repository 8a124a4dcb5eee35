// The form filled in with an earlier run, to change something and run it again.
import type { FeatureCollection, MultiPolygon, Polygon } from "geojson";
import { get } from "../api/client";
import type { DimensionProgress, Job, Service, ServiceList, Step, Task, Tile, TileMap } from "../api/wire";
import { labelsOf } from "../controls";
import { cutAtAntimeridian } from "../map/antimeridian";
import { intervalOf, partsOf, several, steps } from "./dimensions";
import { fresh, ownCells, type Draft } from "./draft";
import { areaOf, daysOf } from "./parameters";

// serviceOf finds the service of the catalogue that a job ran; null if it is not there, or no longer.
export async function serviceOf(job: Pick<Job, "service">): Promise<Service | null> {
  const { application, endpoint } = job.service;
  const services: ServiceList["services"] = [];
  for (let cursor: string | undefined = ""; cursor !== undefined; ) {
    const page: ServiceList = await get(`services?limit=100${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
    services.push(...page.services);
    cursor = page.next;
  }
  const likely = services
    .map(s => s.id)
    .sort((a, b) => Number(application.includes(b)) - Number(application.includes(a)));
  for (const id of likely) {
    const found = await get<Service>(`services/${encodeURIComponent(id)}`);
    if (found.application === application && found.endpoint === endpoint) return found;
  }
  return null;
}

// draftOfRun returns the form of an earlier run, which the address names as "job-7" or "task-7".
export async function draftOfRun(service: Service, name: string): Promise<Draft> {
  const [kind, id] = name.split("-");
  if (kind !== "task") return draftOfJob(service, await get<Job>(`unit_jobs/${id}`));
  const task = await get<Task>(`upscale_tasks/${id}?limit=1`);
  const [job, { dimensions }, { features }] = await Promise.all([
    get<Job>(`unit_jobs/${task.jobs[0]!.id}`),
    get<{ dimensions: DimensionProgress[] }>(`upscale_tasks/${id}/dimensions`),
    get<TileMap>(`upscale_tasks/${id}/tiles`),
  ]);
  const { title, labels, note } = task;
  const draft = draftOfTask(service, { ...job, title, labels, note }, dimensions, features);
  const own = {
    ...(task.budget && { budget: String(task.budget.amount) }),
    ...(task.trial && { trial: String(task.trial) }),
  };
  return { ...draft, limits: { ...draft.limits, ...own } };
}

function draftOfJob(service: Service, job: Job): Draft {
  const { max_duration: seconds, retries, pin } = (job.options ?? {}) as Record<string, number | boolean | undefined>;
  return {
    ...fresh(service, job.parameters ?? {}),
    title: job.title,
    format: job.format ?? "",
    ...(pin === true && { pin: true }),
    limits: {
      ...(typeof retries === "number" && { retries: String(retries) }),
      ...(typeof seconds === "number" && { hours: String(seconds / 3600) }),
      labels: labelsOf(job).join(", "),
      note: job.note ?? "",
    },
  };
}

// draftOfTask takes the tiles of the task as the user's own cells, parts of the time as their span and step, and the
// values of another parameter as lines.
export function draftOfTask(service: Service, job: Job, dimensions: DimensionProgress[], tiles: Tile[]): Draft {
  const draft: Draft = { ...draftOfJob(service, job), zip: isZip(dimensions) };
  const parameters = service.parameters ?? [];
  const [area, time] = [areaOf(parameters), intervalOf(parameters)];
  for (const { name, values } of dimensions) {
    const all = values.map(v => v.value);
    if (name === area?.name) Object.assign(draft, cellsOf(values, tiles));
    else if (name === time?.name) {
      const { from, to } = daysOf([(all[0] as unknown[])[0], (all.at(-1) as unknown[])[1]]);
      draft.entries[name] = { from, to };
      draft.step = stepOf(from, to, all.length) ?? "";
    } else if (several(parameters).some(p => p.name === name)) {
      draft.over = { name, lines: all.map(String).join("\n") };
    }
  }
  return draft;
}

// isZip reports whether the values were combined one by one: each has a job of its own.
const isZip = (dimensions: DimensionProgress[]): boolean =>
  dimensions.length > 1 &&
  dimensions.every(({ values }) => values.length > 1 && values.every(v => v.jobs.length === 1));

const stepOf = (from: string, to: string, parts: number): Step | undefined =>
  parts > 1 ? steps.find(s => partsOf([from, to], s) === parts) : undefined;

function cellsOf(values: DimensionProgress["values"], tiles: Tile[]): Partial<Draft> {
  const byJob = new Map(tiles.map(t => [t.id, t]));
  const features = values.flatMap((v, i) => {
    const geometry = byJob.get(v.jobs[0]!)?.geometry;
    if (geometry?.type !== "Polygon" && geometry?.type !== "MultiPolygon") return [];
    return [{ type: "Feature" as const, id: v.name ?? String(i + 1), properties: {}, geometry }];
  });
  const grid: FeatureCollection = { type: "FeatureCollection", features };
  const whole: MultiPolygon = {
    type: "MultiPolygon",
    coordinates: features.flatMap(f => cutAtAntimeridian(f.geometry as Polygon | MultiPolygon).coordinates),
  };
  return {
    area: { geometry: whole, isBox: false },
    split: true,
    grid: ownCells,
    cells: { file: "cells", grid },
  };
}
