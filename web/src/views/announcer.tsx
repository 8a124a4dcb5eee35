import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

const announceEvery = 10_000; // ms; a screen reader would not finish more

// Announcer tells the progress to screen readers, not more often than they can read.
export function Announcer({ words, ended: over }: { words: string; ended: boolean }) {
  const heard = useSignal("");
  const last = useRef(0);
  useEffect(() => {
    const wait = over ? 0 : Math.max(0, last.current + announceEvery - Date.now());
    const timer = setTimeout(() => {
      last.current = Date.now();
      heard.value = words;
    }, wait);
    return () => clearTimeout(timer);
  }, [words, over]);
  return (
    <div class="visually-hidden" aria-live="polite">
      {heard.value}
    </div>
  );
}
