// The element that holds a map, with its buttons.
import type { ComponentChildren } from "preact";
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { settings } from "../api/session";
import { texts } from "../texts";
import { PlaceSearch } from "./search";
import { Stage } from "./stage";

export function MapView({
  label,
  onStage,
  onFit,
  onFiles,
  tools,
  children,
}: {
  label: string;
  onStage: (stage: Stage) => (() => void) | void;
  onFit: () => void;
  onFiles?: (files: FileList) => void;
  tools?: ComponentChildren; // more buttons
  children?: ComponentChildren;
}) {
  const target = useRef<HTMLDivElement>(null);
  const stage = useRef<Stage | undefined>(undefined);
  const image = useSignal<boolean | null>(null); // whether the base map of images is shown; null: there is none
  useEffect(() => {
    const made = (stage.current = new Stage(target.current!));
    image.value = made.hasImage ? true : null;
    const end = onStage(made);
    return () => {
      end?.();
      made.dispose();
    };
  }, []);
  const drop = onFiles && {
    onDragOver: (event: DragEvent) => event.preventDefault(),
    onDrop: (event: DragEvent) => {
      event.preventDefault();
      if (event.dataTransfer?.files.length) onFiles(event.dataTransfer.files);
    },
  };
  return (
    <div class="map" {...drop}>
      <div ref={target} class="canvas" role="application" aria-label={label} tabIndex={0} />
      <div class="tools">
        <button type="button" aria-label={texts.map.zoomIn} onClick={() => stage.current?.zoom(1)}>
          +
        </button>
        <button type="button" aria-label={texts.map.zoomOut} onClick={() => stage.current?.zoom(-1)}>
          −
        </button>
        <button type="button" aria-label={texts.map.fit} onClick={onFit}>
          ⤢
        </button>
        {image.value !== null && (
          <button
            type="button"
            name="image"
            aria-label={texts.map.image}
            title={texts.map.image}
            aria-pressed={image.value}
            onClick={() => stage.current?.showImage((image.value = !image.value))}
          >
            ◩
          </button>
        )}
        {tools}
      </div>
      <p class="attribution">{image.value ? settings.value.base_map?.attribution : texts.map.outlines}</p>
      <PlaceSearch show={box => stage.current?.fit(box)} />
      {children}
    </div>
  );
}
