// Addresses that are notified of the user's jobs: URLs and the user's own mailbox, whether messages arrive, and the
// last of them.
import { useSignal } from "@preact/signals";
import { get, post, remove } from "../api/client";
import { useResource } from "../api/resource";
import type { Delivery, Hook, NewHook } from "../api/wire";
import { Act, Confirm, Copy, Failure, Loading, Notice, Table } from "../controls";
import { since, time } from "../format";
import { to } from "../route";
import { texts } from "../texts";
import { NewHookForm } from "./hook_form";

const t = texts.hooks;
const looksAgain = 2_000; // ms between two looks at a log, until each message in it was answered

const path = (hook: Hook) => `hooks/${encodeURIComponent(hook.id)}`;

export function Hooks({ email }: { email: string }) {
  const made = useSignal<NewHook | null>(null);
  const { value: hooks, error, again } = useResource(abort => get<Hook[]>("hooks", abort), []);
  const add = (hook: NewHook) => {
    made.value = hook;
    again();
  };
  return (
    <section data-hooks={hooks?.length ?? "loading"}>
      <p class="soft">{t.lead(email !== "")}</p>
      {error !== null && <Failure error={error} again={again} />}
      {!hooks && error === null && <Loading />}
      {hooks?.length === 0 && <p>{t.none}</p>}
      {hooks?.map(h => (
        <HookCard key={h.id} hook={h} again={again} />
      ))}
      {made.value?.secret && <Secret hook={made.value} close={() => (made.value = null)} />}
      {hooks && !made.value?.secret && <NewHookForm key={made.value?.id} email={email} add={add} />}
    </section>
  );
}

function Secret({ hook, close }: { hook: NewHook; close: () => void }) {
  return (
    <Notice
      kind="done"
      title={t.secret}
      action={
        <>
          <Copy text={hook.secret} />
          <button type="button" onClick={close}>
            {t.kept}
          </button>
        </>
      }
    >
      <p>{t.secretHelp(hook.url)}</p>
      <p>
        <code class="secret">{hook.secret}</code>
      </p>
    </Notice>
  );
}

function HookCard({ hook: h, again }: { hook: Hook; again: () => void }) {
  const shown = useSignal(0); // how often the log was asked for
  const test = async () => {
    await post(`${path(h)}/test`);
    shown.value++;
  };
  return (
    <section class="card" data-hook={h.id} data-state={h.state}>
      <div class="row between">
        <h3 class="address">{h.url.replace(/^mailto:/, "")}</h3>
        <span class={h.state === "active" ? "good" : "warn"}>{t.states[h.state]}</span>
      </div>
      <p class="soft small">
        {h.events.map(e => t.events[e]).join(", ")}
        {h.shares && ` (${t.shares(h.shares)})`} · {t.since(since(h.created))}
        {h.next_try && ` · ${t.nextTry(since(h.next_try))}`}
      </p>
      <div class="row">
        <Act label={t.test} act={test} />
        <button type="button" aria-expanded={shown.value > 0} onClick={() => (shown.value = shown.value > 0 ? 0 : 1)}>
          {t.log}
        </button>
        <Confirm
          label={t.remove}
          question={t.removeQuestion(h.url)}
          confirm={t.remove}
          danger
          act={async () => {
            await remove(path(h));
            again();
          }}
        />
      </div>
      {shown.value > 0 && <Log key={shown.value} hook={h} again={() => shown.value++} />}
    </section>
  );
}

function Log({ hook, again }: { hook: Hook; again: () => void }) {
  const waiting = useSignal(false);
  const read = async (abort: AbortSignal) => {
    const found = await get<Delivery[]>(`${path(hook)}/deliveries`, abort);
    waiting.value = found.some(d => d.state === "waiting" && d.answer === null && !d.notice);
    return found;
  };
  const { value: all, error } = useResource(read, [hook.id, waiting.value], waiting.value ? looksAgain : undefined);
  if (error !== null) return <Failure error={error} again={again} />;
  if (!all) return <Loading />;
  if (all.length === 0) return <p>{t.noMessages}</p>;
  return (
    <Table
      label={t.log}
      columns={[
        t.event,
        t.about,
        t.when,
        t.state,
        t.tries,
        <span key="again" class="visually-hidden">
          {t.again}
        </span>,
      ]}
    >
      {all.map(d => (
        <tr key={d.id} data-delivery={d.state}>
          <td>
            {t.events[d.event]}
            {d.share ? ` ${t.shares([d.share])}` : ""}
            {d.attention && (
              <div class="soft small">{texts.pause.titles[d.attention] ?? d.attention.replaceAll("_", " ")}</div>
            )}
          </td>
          <td>
            <About delivery={d} />
          </td>
          <td>{time(d.happened)}</td>
          <td>
            {t.deliveryStates[d.state]}
            {d.answer !== null && ` (${d.answer})`}
            {d.notice && <div class="soft small">{d.notice}</div>}
          </td>
          <td class="num">{d.tries}</td>
          <td>
            <Act
              label={t.again}
              act={async () => {
                await post(`${path(hook)}/deliveries/${encodeURIComponent(d.id)}/send`);
                again();
              }}
            />
          </td>
        </tr>
      ))}
    </Table>
  );
}

function About({ delivery: d }: { delivery: Delivery }) {
  if (d.job_id !== null) return <a href={to(["jobs", String(d.job_id)])}>{t.job(d.job_id)}</a>;
  return d.task_id ? <a href={to(["tasks", String(d.task_id)])}>{t.task(d.task_id)}</a> : <></>;
}
