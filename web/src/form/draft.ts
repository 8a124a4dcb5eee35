// What was entered for a run. It is kept in the tab until its user signs out or starts over, also while the user signs
// in again.
import { effect, signal, type Signal } from "@preact/signals";
import type { FeatureCollection } from "geojson";
import { areaOfValue, type Area, type CornerTexts } from "../area/area";
import { newKey } from "../api/client";
import type { Service, Step } from "../api/wire";
import type { Over } from "./dimensions";
import type { Limits } from "./options";
import { areaOf, entryOf, type Entry } from "./parameters";

export interface Draft {
  title: string; // "": what the form suggests
  format: string; // "": the first that is offered
  entries: Record<string, Entry>;
  area: Area | null;
  typed?: { corners?: CornerTexts; geojson?: string }; // over the area; it may be no area yet
  split: boolean;
  grid: string; // its name, or ownCells
  cells?: OwnCells; // of ownCells
  minArea?: string; // km²
  merge?: boolean; // tiles smaller than that into their neighbours
  buffer?: string; // metres
  fromCentre?: boolean;
  step?: Step | ""; // of the split of the interval
  over?: Over | null;
  zip?: boolean; // the values of the dimensions are combined one by one
  pin?: boolean;
  limits?: Limits;
  at?: string; // the platform, of a service that several offer; "" or absent: any
  key: string; // Idempotency-Key of the submission
  started?: { path: "jobs" | "tasks"; id: number }; // the last run of these values
}

// ownCells stands for a grid that the user has given as a file.
export const ownCells = ":cells";

export interface OwnCells {
  file: string;
  grid: FeatureCollection;
}

const open = new Map<string, Signal<Draft>>();
const place = (id: string): string => `eodispatch-run:${id}`;

// draftFor returns the draft of a run of a service: what the tab has kept, or the service's defaults.
export function draftFor(service: Service): Signal<Draft> {
  const known = open.get(service.id);
  if (known) return known;
  const draft = signal(kept(service.id) ?? fresh(service));
  effect(() => keep(service.id, draft.value));
  open.set(service.id, draft);
  return draft;
}

// fresh returns a draft with the service's defaults, and the values of an example if there is one.
export function fresh(service: Service, example: Record<string, unknown> = {}): Draft {
  const entries: Record<string, Entry> = {};
  const area = areaOf(service.parameters ?? []);
  for (const p of service.parameters ?? []) {
    if (p !== area) entries[p.name] = entryOf(p, example[p.name] ?? p.default);
  }
  const given = area && (example[area.name] ?? area.default);
  const geometry = areaOfValue(given);
  return {
    title: "",
    format: "",
    entries,
    area: geometry ? { geometry, isBox: geometry !== given } : null,
    split: false,
    grid: "",
    key: newKey(),
  };
}

function kept(id: string): Draft | null {
  const text = sessionStorage.getItem(place(id));
  return text === null ? null : (JSON.parse(text) as Draft);
}

function keep(id: string, { area, typed, cells, ...others }: Draft): void {
  // what is too large for the storage, such as an area or a grid, is kept in memory only
  for (const part of [
    { ...others, area, typed, cells },
    { ...others, area: null },
  ]) {
    try {
      sessionStorage.setItem(place(id), JSON.stringify(part));
      return;
    } catch {
      sessionStorage.removeItem(place(id)); // an older draft would come back in its place
    }
  }
}
