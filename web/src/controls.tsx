// The elements that all views are made of.
import { useSignal } from "@preact/signals";
import type { ComponentChildren, TargetedEvent } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { Refused } from "./api/client";
import { comingBack, settings } from "./api/session";
import type { Annotations, Attention, Status } from "./api/wire";
import { share } from "./format";
import { to } from "./route";
import { colour, fillOf, onSchemeChange, totals, type Counts } from "./status";
import { texts } from "./texts";

export function Swatch({ status }: { status: Status }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const draw = () => {
      const element = canvas.current;
      const context = element?.getContext("2d");
      if (!element || !context) return;
      const ratio = devicePixelRatio;
      element.width = element.height = Math.round(14 * ratio);
      context.fillStyle = fillOf(status, ratio);
      context.fillRect(0, 0, element.width, element.height);
      context.strokeStyle = colour(status);
      context.lineWidth = 2 * ratio;
      context.strokeRect(0, 0, element.width, element.height);
    };
    draw();
    return onSchemeChange(draw);
  }, [status]);
  return <canvas ref={canvas} class="swatch" aria-hidden="true" />;
}

export function StatusWord({ status, words }: { status: Status; words?: string }) {
  return (
    <span class="status" data-status={status}>
      <Swatch status={status} />
      {words ?? texts.status[status]}
    </span>
  );
}

export function Notice({
  kind,
  title,
  text,
  children,
  action,
}: {
  kind: "info" | "warning" | "error" | "done";
  title?: string;
  text?: ComponentChildren;
  children?: ComponentChildren;
  action?: ComponentChildren;
}) {
  return (
    <div class={`notice ${kind}`} role={kind === "error" ? "alert" : undefined}>
      <div>
        {title && <strong>{title}</strong>}
        {text && <p>{text}</p>}
        {children}
      </div>
      {action && <div class="row">{action}</div>}
    </div>
  );
}

// errorText says what happened and what to do.
export function errorText(error: unknown): string {
  if (!(error instanceof Refused))
    return texts.errors.unexpected(error instanceof Error ? error.message : String(error));
  if (error.status === 0) return texts.errors.unreachable;
  return error.message || texts.errors.status(error.status);
}

export function Failure({ error, again }: { error: unknown; again?: () => void }) {
  if (error instanceof Refused && error.status === 401) return null; // the page asks to sign in
  const link = error instanceof Refused ? error.link : null;
  const reference = error instanceof Refused ? error.reference : null;
  return (
    <Notice
      kind="error"
      text={errorText(error)}
      action={
        <>
          {link && <Resolve link={link} label={texts.resolve} />}
          {again && (
            <button type="button" onClick={again}>
              {texts.tryAgain}
            </button>
          )}
        </>
      }
    >
      {reference && <p class="soft small">{texts.reference(reference)}</p>}
    </Notice>
  );
}

// Resolve leads to where the user resolves something, and then back.
function Resolve({ link, label }: { link: string; label: string }) {
  const to = safe(link);
  return (
    <a class="button primary resolve" href={to && comingBack(to)}>
      {label}
    </a>
  );
}

export function AttentionNotice({ attention, action }: { attention: Attention; action?: ComponentChildren }) {
  return (
    <Notice
      kind="warning"
      text={attention.message}
      action={
        <>
          {attention.link && (
            <Resolve
              link={attention.link}
              label={attention.action ? texts.attention[attention.action] : texts.resolve}
            />
          )}
          {action}
        </>
      }
    />
  );
}

// safe returns an address that is not a script. Addresses come from platforms and from records of others.
export function safe(address: string): string | undefined {
  try {
    const url = new URL(address, document.baseURI);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : undefined;
  } catch {
    return undefined;
  }
}

// Outward is a link to another site, or its text if the address cannot be opened.
export function Outward({ href, children }: { href: string; children: ComponentChildren }) {
  const to = safe(href);
  return to ? (
    <a href={to} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  ) : (
    <>{children}</>
  );
}

// ProgressBar shows how many of all have which status.
export function ProgressBar({ counts, label }: { counts: Counts; label: string }) {
  const { all, done: over } = totals(counts);
  const total = all || 1;
  const done = over / total;
  const order: Status[] = ["finished", "failed", "canceled", "unknown", "running", "queued", "submitted"];
  return (
    <div
      class="bar"
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(done * 100)}
      aria-valuetext={share(done)}
    >
      {order.map(s =>
        counts[s] ? <i key={s} data-status={s} style={{ width: `${((counts[s] ?? 0) / total) * 100}%` }} /> : null,
      )}
    </div>
  );
}

// Field is a labelled control with its help and its error.
export function Field({
  label,
  help,
  error,
  required,
  children,
  group,
  name,
}: {
  label: ComponentChildren;
  name?: string; // by which the list of faults leads to it
  help?: ComponentChildren;
  error?: string | undefined;
  required?: boolean;
  group?: boolean; // several controls
  children: (attributes: {
    id: string;
    "aria-describedby": string | undefined;
    "aria-invalid": "true" | undefined;
  }) => ComponentChildren;
}) {
  const id = useId();
  const described = [help && `${id}-help`, error && `${id}-error`].filter(Boolean).join(" ") || undefined;
  const inside = (
    <>
      {help && (
        <div class="help" id={`${id}-help`}>
          {help}
        </div>
      )}
      {children({ id, "aria-describedby": described, "aria-invalid": error ? "true" : undefined })}
      {error && (
        <div class="fault" id={`${id}-error`}>
          {error}
        </div>
      )}
    </>
  );
  const mark = !required && <span class="soft optional"> {texts.form.optional}</span>;
  if (group)
    return (
      <fieldset class="field" data-field={name} aria-describedby={described}>
        <legend>
          {label}
          {mark}
        </legend>
        {inside}
      </fieldset>
    );
  return (
    <div class="field" data-field={name}>
      <label for={id}>
        {label}
        {mark}
      </label>
      {inside}
    </div>
  );
}

// copy copies a text. Pages of plain http have no clipboard; there the text is selected in an invisible field.
async function copy(text: string): Promise<void> {
  if (window.isSecureContext) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

export function Copy({ text, label, small }: { text: string; label?: string; small?: boolean }) {
  const done = useSignal(false);
  return (
    <button
      type="button"
      class={small ? "quiet small" : "quiet"}
      onClick={() => {
        void copy(text).then(() => {
          done.value = true;
          setTimeout(() => (done.value = false), 2000);
        });
      }}
    >
      <span aria-live="polite">{done.value ? texts.copied : (label ?? texts.copy)}</span>
    </button>
  );
}

// Confirm is a button that asks before it acts. It reports what went wrong. With also, it offers to do more, and act
// gets whether that was chosen.
export function Confirm({
  label,
  question,
  confirm,
  danger,
  also,
  act,
  class: classes,
}: {
  label: string;
  question: string;
  confirm: string;
  danger?: boolean;
  class?: string;
  also?: { label: string; help: string };
  act: (also: boolean) => Promise<void>;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const chosen = useSignal(false);
  const id = useId();
  const { busy, error, run } = useAction(async () => {
    await act(also !== undefined && chosen.value);
    dialog.current?.close();
  });
  return (
    <>
      <button
        type="button"
        class={classes}
        onClick={() => {
          chosen.value = false;
          error.value = null;
          dialog.current?.showModal();
        }}
      >
        {label}
      </button>
      <dialog ref={dialog} aria-labelledby={id}>
        <p id={id}>{question}</p>
        {also && (
          <>
            <label class="check">
              <input
                type="checkbox"
                name="also"
                checked={chosen.value}
                aria-describedby={`${id}-also`}
                onChange={e => (chosen.value = e.currentTarget.checked)}
              />{" "}
              {also.label}
            </label>
            <p class="help" id={`${id}-also`}>
              {also.help}
            </p>
          </>
        )}
        {error.value !== null && <Failure error={error.value} />}
        <div class="row end">
          <button type="button" onClick={() => dialog.current?.close()}>
            {texts.keep}
          </button>
          <button type="button" class={danger ? "danger" : "primary"} disabled={busy.value} onClick={() => void run()}>
            {confirm}
          </button>
        </div>
      </dialog>
    </>
  );
}

// useAction runs something that may fail. busy is whether it runs, and error why it failed the last time; null: it did
// not.
export function useAction(act: () => Promise<void>) {
  const busy = useSignal(false);
  const error = useSignal<unknown>(null);
  const run = async () => {
    busy.value = true;
    error.value = null;
    await act()
      .catch((e: unknown) => (error.value = e))
      .finally(() => (busy.value = false));
  };
  return { busy, error, run };
}

// Act is a button that does something that may fail.
export function Act({ label, act, class: classes }: { label: string; act: () => Promise<void>; class?: string }) {
  const { busy, error, run } = useAction(act);
  return (
    <>
      <button type="button" class={classes} disabled={busy.value} onClick={() => void run()}>
        {label}
      </button>
      {error.value !== null && <Failure error={error.value} />}
    </>
  );
}

// labelsOf returns labels as people write them.
export const labelsOf = (of: Annotations): string[] =>
  Object.entries(of.labels ?? {})
    .map(([key, value]) => `${key}=${value}`)
    .sort();

// Labels shows labels. Each leads to the list of what has it.
export function Labels({ of, kind }: { of: Annotations; kind: "tasks" | "jobs" }) {
  const labels = labelsOf(of);
  if (labels.length === 0) return null;
  return (
    <ul class="labels" aria-label={texts.labels}>
      {labels.map(l => (
        <li key={l}>
          <a href={to([kind], { q: l })}>{l}</a>
        </li>
      ))}
    </ul>
  );
}

// Facts lists what is known, and leaves out what is not.
export function Facts({ rows }: { rows: [name: string, value: ComponentChildren][] }) {
  return (
    <dl class="facts">
      {rows
        .filter(([, value]) => value)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

// Table has a name, and can be scrolled.
export function Table({
  label,
  columns,
  caption,
  class: classes,
  children,
}: {
  label: string;
  columns: ComponentChildren[];
  caption?: string;
  class?: string;
  children: ComponentChildren;
}) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table class={classes}>
        {caption && <caption class="visually-hidden">{caption}</caption>}
        <thead>
          <tr>
            {columns.map((column, i) => (
              <th key={i} scope="col">
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

// More says how many of all are shown, and shows more of them.
export function More({ shown, all, more }: { shown: number; all: number; more: () => void }) {
  if (shown >= all) return null;
  return (
    <div class="row">
      <span class="soft">{texts.lists.of(shown, all)}</span>
      <button type="button" onClick={more}>
        {texts.more}
      </button>
    </div>
  );
}

// Gone says that there is no such task or job, and leads to the others.
export function Gone({ kind, text }: { kind: "tasks" | "jobs"; text: string }) {
  const others = (
    <a class="button" href={to([kind])}>
      {texts.lists[kind]}
    </a>
  );
  return (
    <div class="page">
      <Notice kind="info" text={text} action={others} />
    </div>
  );
}

export function Loading() {
  return (
    <p class="loading soft" role="status">
      {texts.loading}
    </p>
  );
}

// save lets the browser store a text as a file.
export function save(name: string, text: string, type = "text/plain"): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

// useTitle sets the title of the document, so that tabs and the history can be told apart.
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · ${settings.value.title}`;
  }, [title, settings.value.title]);
}

export type InputEvent = TargetedEvent<HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement>;
