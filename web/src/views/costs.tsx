// What a task has cost, and how long its tiles ran.
import type { LiveTask } from "../api/live";
import type { TaskSummary } from "../api/wire";
import { duration, number, range, rounded } from "../format";
import { texts } from "../texts";
import { BudgetLine, Rest } from "./pause";

const t = texts.costs;

interface Sum {
  tiles: number;
  total: number;
  low: number;
  high: number;
}

// sumOf adds up numbers of tiles; null if there are none.
export function sumOf(all: (number | undefined)[]): Sum | null {
  const known = all.filter(n => n !== undefined);
  if (known.length === 0) return null;
  const total = known.reduce((a, b) => a + b, 0);
  return { tiles: known.length, total, low: Math.min(...known), high: Math.max(...known) };
}

export function Costs({ task, summary }: { task: LiveTask; summary: TaskSummary }) {
  const jobs = [...task.jobs.value.values()];
  const unit = jobs.find(j => j.cost_unit)?.cost_unit ?? "";
  const costs = sumOf(jobs.map(j => j.costs));
  const ran = sumOf(jobs.map(j => j.duration));
  const spread = (s: Sum, show: (n: number) => string) => range(s.low, s.total / s.tiles, s.high, show);
  const rows: [string, string | null][] = [
    [t.total, costs && `${rounded(costs.total)} ${unit}`],
    [t.of, costs && number(costs.tiles)],
    [t.each, costs && `${spread(costs, rounded)} ${unit}`],
    [t.ran, ran && duration(ran.total)],
    [t.ranEach, ran && spread(ran, duration)],
  ];
  const known = rows.filter(([, v]) => v);
  return (
    <>
      {summary.budget && <BudgetLine budget={summary.budget} />}
      {known.length === 0 && <p class="soft">{t.none}</p>}
      <dl class="facts" data-costs={costs?.total}>
        {known.map(([name, v]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd class="num">{v}</dd>
          </div>
        ))}
      </dl>
      {summary.rest && <Rest of={summary.rest} />}
    </>
  );
}
