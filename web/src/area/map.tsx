// The area of a run on the map.
import { useSignal, type Signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { newKey } from "../api/client";
import type { Draft } from "../form/draft";
import { boxAround } from "../map/antimeridian";
import { AreaLayer } from "../map/area_layer";
import type { Stage } from "../map/stage";
import { texts } from "../texts";
import { cornerTexts, fromMap, readCorners, type Area, type Corners } from "./area";
import { readFirst, type Drawing } from "./field";

export interface AreaMap {
  layer: Signal<AreaLayer | null>;
  drawing: Signal<Drawing>;
  message: Signal<{ kind: "info" | "error"; text: string } | null>;
  onStage: (stage: Stage) => () => void;
  draw: (kind: Drawing) => void;
  set: (area: Area | null, show: boolean) => void;
  type: (corner: keyof Corners, text: string) => void;
  typeGeoJSON: (text: string) => void;
  upload: (files: FileList) => void;
  fit: () => void;
}

// useAreaMap connects the area of a draft with the map.
export function useAreaMap(draft: Signal<Draft>): AreaMap {
  const stage = useRef<Stage | undefined>(undefined);
  const layer = useSignal<AreaLayer | null>(null);
  const drawing = useSignal<Drawing>(null);
  const message = useSignal<AreaMap["message"]["value"]>(null);
  const fit = () => {
    if (draft.value.area) stage.current?.fit(boxAround(draft.value.area.geometry));
  };
  const set = (area: Area | null, show: boolean) => {
    message.value = null;
    const { typed: _, ...others } = draft.value;
    draft.value = { ...others, area, key: newKey() };
    layer.value?.showArea(area?.geometry ?? null);
    if (show) fit();
  };
  return {
    layer,
    drawing,
    message,
    set,
    fit,
    type: (corner, text) => {
      const corners = { ...draft.value.typed?.corners, [corner]: text };
      const read = readCorners(cornerTexts(corners, draft.value.area));
      if (read === "empty") set(null, false);
      else if (typeof read === "object") set(read, true);
      draft.value = { ...draft.value, typed: { ...draft.value.typed, corners } };
    },
    typeGeoJSON: text => (draft.value = { ...draft.value, typed: { ...draft.value.typed, geojson: text } }),
    draw: kind => {
      drawing.value = kind;
      layer.value?.start(kind);
    },
    upload: files => {
      void readFirst(files).then(found => {
        if ("fault" in found) {
          message.value = { kind: "error", text: found.fault };
          return;
        }
        set(found.area, true);
        message.value = found.note ? { kind: "info", text: found.note } : null;
      });
    },
    onStage: made => {
      stage.current = made;
      const own = new AreaLayer(
        made,
        (geometry, how) => set(fromMap(geometry, how === "box"), how !== "edited"),
        () => (drawing.value = null),
      );
      own.showArea(draft.value.area?.geometry ?? null);
      layer.value = own;
      fit();
      return () => own.dispose();
    },
  };
}

// DrawingTools are the buttons on the map that draw its area and remove it.
export function DrawingTools({ map: { drawing, draw, set }, hasArea }: { map: AreaMap; hasArea: boolean }) {
  return (
    <>
      {(["box", "polygon"] as const).map(kind => (
        <button
          key={kind}
          type="button"
          name={`draw-${kind}`}
          aria-label={texts.area[kind]}
          title={texts.area[kind]}
          aria-pressed={drawing.value === kind}
          onClick={() => draw(drawing.value === kind ? null : kind)}
        >
          {kind === "box" ? "▭" : "⬠"}
        </button>
      ))}
      {hasArea && (
        <button type="button" aria-label={texts.area.remove} title={texts.area.remove} onClick={() => set(null, false)}>
          ✕
        </button>
      )}
    </>
  );
}
