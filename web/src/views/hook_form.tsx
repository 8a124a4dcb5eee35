// A new address that is notified.
import { useSignal } from "@preact/signals";
import { post, Refused } from "../api/client";
import type { HookEvent, NewHook } from "../api/wire";
import { errorText, Field, Notice, useAction } from "../controls";
import { texts } from "../texts";

const t = texts.hooks;
const offered: HookEvent[] = ["finished", "failed", "canceled", "task_ended", "attention", "task_share", "running"];
const usual: HookEvent[] = ["task_ended", "attention"]; // not one message for each job of a task

export function NewHookForm({ email, add }: { email: string; add: (hook: NewHook) => void }) {
  const byMail = useSignal(false);
  const url = useSignal("");
  const events = useSignal(usual);
  const { busy, error, run } = useAction(async () => {
    const to = byMail.value ? `mailto:${email}` : url.value.trim();
    add(await post<NewHook>("hooks", { url: to, events: events.value }));
  });
  const faults = error.value instanceof Refused ? error.value.errors : [];
  const fault = faults.map(e => e.msg).join(" ");
  const submit = (event: Event) => {
    event.preventDefault();
    void run();
  };
  return (
    <form class="box" onSubmit={submit}>
      <h3>{t.add}</h3>
      {email && (
        <Field label={t.how} required group>
          {() =>
            (["url", "mail"] as const).map(way => (
              <label key={way} class="check">
                <input
                  type="radio"
                  name="way"
                  checked={byMail.value === (way === "mail")}
                  onChange={() => (byMail.value = way === "mail")}
                />{" "}
                {way === "mail" ? t.mail(email) : t.url}
              </label>
            ))
          }
        </Field>
      )}
      {!byMail.value && (
        <Field label={t.address} help={t.addressHelp} required error={fault || undefined}>
          {a => (
            <input
              {...a}
              type="url"
              name="url"
              required
              placeholder="https://"
              value={url.value}
              onInput={e => (url.value = e.currentTarget.value)}
            />
          )}
        </Field>
      )}
      <Field label={t.of} required group>
        {() =>
          offered.map(e => (
            <label key={e} class="check">
              <input
                type="checkbox"
                name={e}
                checked={events.value.includes(e)}
                onChange={change =>
                  (events.value = change.currentTarget.checked
                    ? [...events.value, e]
                    : events.value.filter(other => other !== e))
                }
              />{" "}
              {t.events[e]}
            </label>
          ))
        }
      </Field>
      {error.value !== null && (byMail.value || !fault) && (
        <Notice kind="error" text={fault || errorText(error.value)} />
      )}
      <div class="row">
        <button type="submit" class="primary" disabled={busy.value || events.value.length === 0}>
          {t.add}
        </button>
      </div>
    </form>
  );
}
