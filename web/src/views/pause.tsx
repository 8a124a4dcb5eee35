// What a task may cost and has cost, why its waiting tiles are not submitted, and how they go on.
import { useSignal } from "@preact/signals";
import { resumeTask } from "../api/tasks";
import type { TaskBudget, TaskRest, TaskSummary } from "../api/wire";
import { Act, Failure, Field, Notice, useAction } from "../controls";
import { duration, range, rounded } from "../format";
import { texts } from "../texts";

const t = texts.pause;

export function BudgetLine({ budget }: { budget: TaskBudget }) {
  const { amount, unit, spent, expected } = budget;
  return (
    <div class="budget" data-spent={spent} data-amount={amount}>
      <div class="row between small">
        <span>{t.spent(rounded(spent), rounded(amount), unit)}</span>
        {expected > 0 && <span class="soft">{t.expected(rounded(expected), unit)}</span>}
      </div>
      <meter min={0} max={amount} value={Math.min(spent, amount)} aria-label={t.budget} />
    </div>
  );
}

// Paused says why the waiting tiles of a task are not submitted, and has them go on.
export function Paused({ summary }: { summary: TaskSummary }) {
  const { id, attention, budget } = summary;
  const why = attention?.code ?? "paused";
  const waiting = summary.counts?.created ?? 0;
  const own = t.titles[why] !== undefined; // otherwise it is paused by its owner, or more important things are shown
  // without another budget it would not go on
  const kept = why === "budget_reached" || why === "budget_unusable" || why === "costs_awaited";
  return (
    <div class="paused" data-why={why}>
      <Notice
        kind="warning"
        title={t.titles[why] ?? texts.paused}
        action={
          kept ? undefined : (
            <Act
              label={why === "trial_ended" ? t.runOthers(waiting) : texts.task.resume}
              class="primary"
              act={() => resumeTask(id)}
            />
          )
        }
      >
        <p>{own ? attention?.message : texts.task.pausedHelp(waiting)}</p>
        {budget && kept && <Raise id={id} budget={budget} useful={why === "budget_reached"} />}
      </Notice>
    </div>
  );
}

// Raise gives a task another budget, or none, with which it goes on.
function Raise({ id, budget, useful }: { id: number; budget: TaskBudget; useful: boolean }) {
  const amount = useSignal("");
  const { busy, error, run } = useAction(() => resumeTask(id, Number(amount.value)));
  const submit = (event: Event) => {
    event.preventDefault();
    void run();
  };
  return (
    <>
      {useful && (
        <form onSubmit={submit}>
          <Field label={t.newBudget(budget.unit)} help={t.newBudgetHelp(rounded(budget.amount))} required>
            {a => (
              <input
                {...a}
                type="number"
                name="budget"
                required
                min={0}
                step="any"
                value={amount.value}
                onInput={e => (amount.value = e.currentTarget.value)}
              />
            )}
          </Field>
          {error.value !== null && <Failure error={error.value} />}
          <div class="row">
            <button type="submit" class="primary" disabled={busy.value || !(Number(amount.value) > 0)}>
              {t.raise}
            </button>
          </div>
        </form>
      )}
      <div class="row">
        <Act label={t.withoutBudget} act={() => resumeTask(id, null)} />
      </div>
    </>
  );
}

// Rest tells what the tiles that wait for their owner need.
export function Rest({ of: r }: { of: TaskRest }) {
  if (!r.costs && !r.seconds) return null;
  const costs = r.costs && range(r.costs.low, r.costs.likely, r.costs.high, rounded);
  const takes = r.seconds && range(r.seconds.low, r.seconds.likely, r.seconds.high, duration);
  return (
    <Notice kind="info" title={texts.task.rest(r.jobs)}>
      {costs && <p>{texts.task.restCosts(`${costs} ${r.cost_unit}`.trim(), r.cost_runs, r.basis)}</p>}
      {takes && <p>{texts.task.restTakes(takes, r.seconds_runs, r.basis)}</p>}
    </Notice>
  );
}
