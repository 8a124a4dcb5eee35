// The limits and notes of a run as they are entered: texts, some of which may be wrong.
import type { HookEvent } from "../api/wire";
import { texts } from "../texts";

export interface Limits {
  budget?: string;
  trial?: string;
  retries?: string;
  hours?: string; // that a job may run
  notify?: string; // an https address or, where mail is sent, one of mail
  labels?: string; // "season=spring, crop=wheat"
  note?: string;
}

export interface Notify {
  url: string;
  events: HookEvent[];
}

export interface Options {
  budget?: number;
  trial?: number;
  retries?: number;
  max_duration?: number; // seconds
  notify?: Notify;
}

export interface ReadLimits {
  options: Options;
  labels: Record<string, string>;
  note: string;
  fault: string | null;
}

// readLimits reads what was entered. Budget and trial are for tasks only.
export function readLimits(limits: Limits, task: boolean): ReadLimits {
  const faults: string[] = [];
  const amount = (text: string | undefined, name: keyof typeof texts.limits.names, whole: boolean) => {
    if (!text?.trim()) return undefined;
    const n = Number(text);
    if (Number.isFinite(n) && n > 0 && (!whole || Number.isInteger(n))) return n;
    faults.push(texts.limits.bad(texts.limits.names[name]));
    return undefined;
  };
  const hours = amount(limits.hours, "hours", false);
  const options: Options = {
    budget: task ? amount(limits.budget, "budget", false) : undefined,
    trial: task ? amount(limits.trial, "trial", true) : undefined,
    retries: amount(limits.retries, "retries", true),
    max_duration: hours && Math.max(1, Math.round(hours * 3600)),
    notify: notifyOf(limits.notify?.trim() ?? "", task),
  };
  if (options.notify && !/^(https?:\/\/|mailto:)./.test(options.notify.url)) faults.push(texts.limits.badNotify);
  const labels: Record<string, string> = {};
  for (const part of (limits.labels ?? "").split(",").map(p => p.trim())) {
    const [, key, value] = /^([^=\s]+)=(.*)$/.exec(part) ?? [];
    if (key) labels[key] = value!.trim();
    else if (part) faults.push(texts.limits.badLabel(part));
  }
  const given = Object.entries(options).filter(([, v]) => v !== undefined);
  return { options: Object.fromEntries(given), labels, note: limits.note?.trim() ?? "", fault: faults[0] ?? null };
}

// notifyOf returns who is notified of what: of the end of a task as a whole, not of each of its jobs.
function notifyOf(text: string, task: boolean): Notify | undefined {
  if (!text) return undefined;
  const url = /^[^\s/:]+@[^\s/:]+$/.test(text) ? `mailto:${text}` : text;
  return { url, events: task ? ["task_ended", "attention"] : ["finished", "failed", "canceled", "attention"] };
}

// limitFlags returns the flags of the command line for the same limits.
export function limitFlags({ options, labels, note }: ReadLimits, quoted: (text: string) => string): string[] {
  return [
    ...(options.budget ? [`--budget ${options.budget}`] : []),
    ...(options.trial ? [`--trial ${options.trial}`] : []),
    ...(options.retries ? [`--option retries=${options.retries}`] : []),
    ...(options.max_duration ? [`--option max_duration=${options.max_duration}`] : []),
    ...(options.notify ? [`--option ${quoted(`notify=${JSON.stringify(options.notify)}`)}`] : []),
    ...Object.entries(labels).map(([key, value]) => `--label ${quoted(`${key}=${value}`)}`),
    ...(note ? [`--note ${quoted(note)}`] : []),
  ];
}
