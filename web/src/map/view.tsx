// The element that holds a map, with its buttons.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { texts } from "../texts";
import { Stage } from "./stage";

export function MapView({
  label,
  onStage,
  onFit,
  onFiles,
  children,
}: {
  label: string;
  onStage: (stage: Stage) => (() => void) | void;
  onFit: () => void;
  onFiles?: (files: FileList) => void;
  children?: ComponentChildren;
}) {
  const target = useRef<HTMLDivElement>(null);
  const stage = useRef<Stage | undefined>(undefined);
  useEffect(() => {
    const made = (stage.current = new Stage(target.current!));
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
      </div>
      {children}
    </div>
  );
}
