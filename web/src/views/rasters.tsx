// Files of pixels on the map: which are shown, and how.
import { useSignal } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import type { Band, Class } from "../map/asset";
import { initialLook, type Look, type Picture, type RasterLayer } from "../map/raster_layer";
import { texts } from "../texts";

const t = texts.results;

export interface Rasters {
  shown: string[];
  reading: number; // files that are being read or wait for it
  failure: string;
  show: (files: Picture[], expected?: number) => Promise<void>; // expected: how many there will be in the end
  hide: (name?: string) => void; // without a name: all
  look: Look;
  range: [number, number];
  bands: Band[];
  classes: Class[];
  choose: (look: Partial<Look>) => void;
  setOpacity: (opacity: number) => void;
}

export const bandName = (bands: Band[], i: number): string => bands[i]?.name || t.bandOf(i + 1);

const readAtOnce = 6;
const reportEvery = 250; // ms between two reports of what has been read

// useRasters shows files on the map, and tells the view what is shown.
export function useRasters(layer: RasterLayer | null): Rasters {
  const version = useSignal(0);
  const reading = useSignal(0);
  const failure = useSignal("");
  const epoch = useRef(0); // changes when what is read is no longer wanted
  const queue = useRef<{ file: Picture; expected: number }[]>([]);
  const workers = useRef(0);
  void version.value;
  const changed = useMemo(() => throttled(() => version.value++, reportEvery), []);
  const work = async (own: number) => {
    workers.current++;
    for (let next = queue.current.shift(); next && own === epoch.current; next = queue.current.shift()) {
      await layer!.add(next.file, next.expected).catch((e: unknown) => (failure.value = why(e)));
      if (own !== epoch.current) layer!.remove(next.file.name);
      reading.value = queue.current.length;
      changed();
    }
    workers.current--;
    if (workers.current > 0) return;
    layer!.draw();
    version.value++;
  };
  const show = async (files: Picture[], expected = files.length) => {
    if (!layer) return;
    failure.value = "";
    const known = new Set([...layer.names, ...queue.current.map(q => q.file.name)]);
    const total = Math.max(expected, known.size + files.length);
    queue.current.push(...files.filter(f => !known.has(f.name)).map(file => ({ file, expected: total })));
    reading.value = queue.current.length;
    const free = Math.min(readAtOnce - workers.current, queue.current.length);
    await Promise.all(Array.from({ length: Math.max(0, free) }, () => work(epoch.current)));
  };
  const hide = (name?: string) => {
    if (name) layer?.remove(name);
    else {
      epoch.current++;
      queue.current = [];
      layer?.clear();
    }
    layer?.draw();
    version.value++;
  };
  return {
    shown: layer?.names ?? [],
    reading: reading.value,
    failure: failure.value,
    show,
    hide,
    look: layer?.look ?? initialLook,
    range: layer?.range ?? [0, 1],
    bands: layer?.bandsMeant ?? [],
    classes: layer?.classes ?? [],
    choose: look =>
      void layer
        ?.choose(look)
        .catch((e: unknown) => (failure.value = why(e)))
        .then(() => version.value++),
    setOpacity: opacity => layer?.setOpacity(opacity),
  };
}

// throttled returns a function that calls back at once, and then not more often than each so many ms.
function throttled(call: () => void, pause: number): () => void {
  let last = -Infinity;
  return () => {
    if (performance.now() - last < pause) return;
    last = performance.now();
    call();
  };
}

// why says why a file cannot be shown. Browsers do not tell a refused cross-origin request from a broken connection.
const why = (e: unknown): string =>
  e instanceof TypeError || (e instanceof Error && /fetch|aggregate|request failed/i.test(e.message + e.name))
    ? t.cors
    : e instanceof Error
      ? t.unreadable(e.message)
      : String(e);
