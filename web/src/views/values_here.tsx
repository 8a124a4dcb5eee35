import { useSignal } from "@preact/signals";
import { toLonLat } from "ol/proj";
import { useEffect } from "preact/hooks";
import { degrees, rounded } from "../format";
import type { Band } from "../map/asset";
import type { RasterLayer, Sample } from "../map/raster_layer";
import type { Stage } from "../map/stage";
import { texts } from "../texts";
import { bandName } from "./rasters";

const t = texts.results;

interface Here {
  at: number[]; // longitude and latitude
  samples: Sample[];
}

// ValuesHere shows the values of all bands at the place of the map that was clicked.
export function ValuesHere({
  stage,
  layer,
  bands,
  nameOf,
}: {
  stage: Stage | null;
  layer: RasterLayer | null;
  bands: Band[];
  nameOf: (file: string) => string;
}) {
  const here = useSignal<Here | null>(null);
  useEffect(() => {
    if (!stage || !layer) return;
    let last: number[] | undefined;
    return stage.onClick(coordinate => {
      last = coordinate;
      void layer.samplesAt(coordinate).then(samples => {
        if (coordinate !== last) return; // another place was clicked meanwhile
        here.value = samples.length > 0 ? { at: toLonLat(coordinate), samples } : null;
      });
    });
  }, [stage, layer]);
  if (!here.value) return null;
  const [longitude = 0, latitude = 0] = here.value.at;
  return (
    <section class="here" role="status" aria-label={t.here}>
      <button type="button" class="quiet small" aria-label={texts.clear} onClick={() => (here.value = null)}>
        ✕
      </button>
      <p class="soft small num">
        {degrees(latitude)}, {degrees(longitude)}
      </p>
      {here.value.samples.map(s => (
        <dl key={s.name}>
          <dt class="small">{nameOf(s.name)}</dt>
          {s.values.map((v, i) => (
            <dd key={i} class="num" data-band={i}>
              {bandName(bands, i)}: <b>{v === null ? t.noData : rounded(v)}</b> {v === null ? "" : bands[i]?.unit}
            </dd>
          ))}
        </dl>
      ))}
    </section>
  );
}
