// What views read from the broker.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { mayPass } from "./client";

export interface Resource<T> {
  value: T | null; // what was read last; null: nothing yet
  error: unknown; // of the last read; null: it succeeded
  again: () => void;
}

const pause = 5_000; // ms after a read that failed and may succeed later

// useResource reads something when a view is shown, and anew whenever one of the inputs has changed; with every, also
// each so many milliseconds. A read that fails for a reason that may pass is repeated. load may return null: not yet.
export function useResource<T>(
  load: ((abort: AbortSignal) => Promise<T>) | null,
  inputs: unknown[],
  every?: number,
): Resource<T> {
  const value = useSignal<T | null>(null);
  const error = useSignal<unknown>(null);
  const attempt = useSignal(0);
  useEffect(() => {
    if (!load) return;
    const abort = new AbortController();
    let timer: number | undefined;
    const read = () => {
      load(abort.signal).then(
        found => {
          if (abort.signal.aborted) return;
          value.value = found;
          error.value = null;
          if (every) timer = window.setTimeout(read, every);
        },
        (e: unknown) => {
          if (abort.signal.aborted) return;
          error.value = e;
          if (mayPass(e)) timer = window.setTimeout(read, Math.max(pause, every ?? 0));
        },
      );
    };
    read();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [...inputs, attempt.value, load !== null]);
  return { value: value.value, error: error.value, again: () => attempt.value++ };
}
