// What a task has cost, and how long its tiles ran.
import type { LiveTask } from "../api/live";
import type { Job, TaskSummary } from "../api/wire";
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
function sumOf(all: (number | undefined)[]): Sum | null {
  const known = all.filter(n => n !== undefined);
  if (known.length === 0) return null;
  const total = known.reduce((a, b) => a + b, 0);
  return { tiles: known.length, total, low: Math.min(...known), high: Math.max(...known) };
}

// costsOf adds up the costs of jobs by their unit: platforms of a task may charge in different ones.
export function costsOf(jobs: Job[]): [unit: string, costs: Sum][] {
  const units = new Set(jobs.filter(j => j.costs !== undefined).map(j => j.cost_unit ?? ""));
  return [...units].map(unit => [unit, sumOf(jobs.map(j => ((j.cost_unit ?? "") === unit ? j.costs : undefined)))!]);
}

export function Costs({ task, summary }: { task: LiveTask; summary: TaskSummary }) {
  const jobs = [...task.jobs.value.values()];
  const costs = costsOf(jobs);
  const ran = sumOf(jobs.map(j => j.duration));
  const spread = (s: Sum, show: (n: number) => string) => range(s.low, s.total / s.tiles, s.high, show);
  const rows: [string, string | null][] = [
    ...costs.flatMap(([unit, c]): typeof rows => [
      [t.total, `${rounded(c.total)} ${unit}`],
      [t.of, number(c.tiles)],
      [t.each, `${spread(c, rounded)} ${unit}`],
    ]),
    [t.ran, ran && duration(ran.total)],
    [t.ranEach, ran && spread(ran, duration)],
  ];
  const known = rows.filter(([, v]) => v);
  return (
    <>
      {summary.budget && <BudgetLine budget={summary.budget} />}
      {known.length === 0 && <p class="soft">{t.none}</p>}
      <dl class="facts" data-costs={costs.map(([, c]) => c.total).join(" ") || undefined}>
        {known.map(([name, v], i) => (
          <div key={i}>
            <dt>{name}</dt>
            <dd class="num">{v}</dd>
          </div>
        ))}
      </dl>
      {summary.rest && <Rest of={summary.rest} />}
    </>
  );
}
