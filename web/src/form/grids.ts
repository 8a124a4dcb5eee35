// The grids that an area can be split by, as people choose among them.
import { settings } from "../api/session";
import type { Grid } from "../api/wire";

export type Kind = "degrees" | "utm" | "mgrs" | "h3" | "other";

const kindOf = ({ name }: Grid): Kind =>
  name.startsWith("utm")
    ? "utm"
    : name.startsWith("mgrs")
      ? "mgrs"
      : name.startsWith("h3")
        ? "h3"
        : /^\d+x\d+km$/.test(name)
          ? "degrees"
          : "other";

// km2Of returns the size of a cell.
export const km2Of = (g: Grid): number => (g.cell_width * g.cell_height) / 1e6;

export interface Choice {
  grid: Grid;
  about: number | null; // tiles of the area; null: not known
}

// groupsOf returns the grids by their kind. Those of which the area would have far more tiles than a task may have are
// left out, but for the chosen one.
export function groupsOf(grids: Grid[], area: number | null, chosen: string): { kind: Kind; grids: Choice[] }[] {
  const limit = settings.value.limits.values ?? Infinity;
  const groups = new Map<Kind, Choice[]>();
  for (const grid of grids) {
    const about = area === null ? null : Math.max(1, Math.round(area / km2Of(grid)));
    if (about !== null && about > limit * 1.2 && grid.name !== chosen) continue;
    const kind = kindOf(grid);
    groups.set(kind, [...(groups.get(kind) ?? []), { grid, about }]);
  }
  return [...groups].map(([kind, grids]) => ({ kind, grids }));
}
