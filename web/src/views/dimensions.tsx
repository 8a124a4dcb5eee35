// The progress of a task by the values of its dimensions, such as each month.
import { useSignal } from "@preact/signals";
import { get } from "../api/client";
import type { LiveTask } from "../api/live";
import { useResource } from "../api/resource";
import type { DimensionProgress } from "../api/wire";
import { areaOfValue } from "../area/area";
import { More, ProgressBar } from "../controls";
import { label } from "../form/parameters";
import { Shown } from "../form/shown";
import { query, setQuery } from "../route";
import { totals, type Counts } from "../status";
import { texts } from "../texts";

const t = texts.several;
const rows = 24; // of a dimension at once

// useDimensions reads which jobs have which values. That does not change, so it is read once; the statuses come with
// the task.
export function useDimensions(id: number): DimensionProgress[] {
  const path = `upscale_tasks/${id}/dimensions`;
  const { value } = useResource(abort => get<{ dimensions: DimensionProgress[] }>(path, abort), [id]);
  return value?.dimensions ?? [];
}

// chosenJobs returns the jobs of the value that the address names; null: of any.
export function chosenJobs(dimensions: DimensionProgress[]): ReadonlySet<number> | null {
  const [, name, at] = /^(.*)\.(\d+)$/.exec(query.value.get("of") ?? "") ?? [];
  const value = dimensions.find(d => d.name === name)?.values[Number(at)];
  return value ? new Set(value.jobs) : null;
}

// Dimensions shows the dimensions that are not on the map, of a task with any.
export function Dimensions({ task, dimensions }: { task: LiveTask; dimensions: DimensionProgress[] }) {
  const shown = dimensions.filter(
    d => !d.values.some(v => areaOfValue(v.value)) && (dimensions.length > 1 || d.values.length > 1),
  );
  return (
    <>
      {shown.map(d => (
        <Values key={d.name} task={task} dimension={d} />
      ))}
    </>
  );
}

function Values({ task, dimension: d }: { task: LiveTask; dimension: DimensionProgress }) {
  const most = useSignal(rows);
  const of = query.value.get("of");
  return (
    <section class="dimension" data-dimension={d.name}>
      <h2>{t.of(label(d.name))}</h2>
      <ul class="values">
        {d.values.slice(0, most.value).map((v, i) => {
          const counts: Counts = {};
          for (const id of v.jobs) {
            const status = task.jobs.value.get(id)?.status;
            if (status) counts[status] = (counts[status] ?? 0) + 1;
          }
          const { all, done } = totals(counts);
          const name = `${d.name}.${i}`;
          return (
            <li key={name} data-done={done} data-all={all}>
              <div class="row between">
                <span>{v.name ? v.name : v.value === undefined ? t.value(i + 1) : <Shown value={v.value} />}</span>
                <span class="row">
                  <span class="soft small num">{t.done(done, all, counts.failed ?? 0)}</span>
                  <button
                    type="button"
                    class="quiet small"
                    aria-pressed={of === name}
                    onClick={() => setQuery({ of: of === name ? "" : name, tile: "", tab: "tiles" })}
                  >
                    {t.show}
                  </button>
                </span>
              </div>
              <ProgressBar counts={counts} label={t.done(done, all, counts.failed ?? 0)} />
            </li>
          );
        })}
      </ul>
      <More shown={most.value} all={d.values.length} more={() => (most.value += rows)} />
    </section>
  );
}
