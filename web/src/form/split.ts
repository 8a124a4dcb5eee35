// The tiles of the area of a run, while it is entered.
import { useComputed, useSignal, useSignalEffect, type Signal } from "@preact/signals";
import type { MultiPolygon, Polygon } from "geojson";
import { mayPass, post, Refused } from "../api/client";
import { settings } from "../api/session";
import type { Tiles } from "../api/wire";
import { sizeInKm2 } from "../area/area";
import { errorText } from "../controls";
import { texts } from "../texts";
import type { Draft } from "./draft";
import type { Faults } from "./request";
import { tilesRequest } from "./tiling";

// Split is the tiles of the area, or why there are none.
export type Split =
  | { state: "none" | "counting" }
  | { state: "ready"; tiles: (Polygon | MultiPolygon)[]; ids: string[]; slivers: number[] }
  | { state: "failed"; error: unknown };

export const tooMany = (tiles: number): boolean => tiles > (settings.value.limits.values ?? Infinity);

export const splitReady = (draft: Draft, split: Split): boolean =>
  !draft.split || (split.state === "ready" && Object.keys(splitFault(draft, split)).length === 0);

export function splitFault(draft: Draft, split: Split): Faults {
  if (!draft.split || !draft.area) return {};
  if (!tilesRequest(draft)) return { ":area": texts.split.needsCells };
  if (split.state === "failed") return { ":area": splitError(split.error) };
  if (split.state !== "ready") return { ":area": texts.split.counting };
  if (split.tiles.length === 0) return { ":area": texts.split.none };
  return tooMany(split.tiles.length)
    ? { ":area": texts.split.over(split.tiles.length, settings.value.limits.values ?? 0) }
    : {};
}

// splitError says why an area was not split: what is wrong with the request, if that is known.
export function splitError(error: unknown): string {
  const faults = error instanceof Refused ? error.errors : [];
  return faults.length > 0 ? faults.map(({ msg }) => msg).join(". ") : errorText(error);
}

const pause = 5_000; // ms after a request that failed and may succeed later

// useSplit asks for the tiles of the area while the run is to be split.
export function useSplit(draft: Signal<Draft>): Signal<Split> {
  const split = useSignal<Split>({ state: "none" });
  // compared by identity
  const [area, cells] = [useComputed(() => draft.value.area), useComputed(() => draft.value.cells)];
  const how = useComputed(() =>
    JSON.stringify({
      ...tilesRequest(draft.value),
      aoi: null,
      cells: null,
      own: draft.value.grid,
      split: draft.value.split,
    }),
  );
  useSignalEffect(() => {
    void [area.value, cells.value, how.value];
    const body = tilesRequest(draft.peek());
    if (!body) {
      split.value = { state: "none" };
      return;
    }
    let dropped = false;
    split.value = { state: "counting" };
    const ask = () =>
      post<Tiles>("tiles", body)
        .then(found => {
          if (!dropped)
            split.value = { state: "ready", tiles: found.geometries, ids: found.ids, slivers: sliversIn(found) };
        })
        .catch((error: unknown) => {
          if (dropped) return;
          split.value = { state: "failed", error };
          if (mayPass(error)) timer = setTimeout(ask, pause);
        });
    let timer = setTimeout(ask, 250); // an area that is being edited changes often
    return () => {
      dropped = true;
      clearTimeout(timer);
    };
  });
  return split;
}

// sliversIn returns the indexes of the tiles that are smaller than a tenth of the largest.
function sliversIn({ geometries }: Tiles): number[] {
  const sizes = geometries.map(sizeInKm2);
  const whole = sizes.reduce((a, b) => Math.max(a, b), 0);
  return sizes.flatMap((s, i) => (s < whole / 10 ? [i] : []));
}
