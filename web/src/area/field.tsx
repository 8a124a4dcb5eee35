// The fields of an area: buttons to draw, coordinates, files and countries. They say the same as the map.
import { useSignal } from "@preact/signals";
import { useId } from "preact/hooks";
import { Field, Notice } from "../controls";
import type { Draft } from "../form/draft";
import { countryNames, outlineOf } from "../map/world";
import { texts } from "../texts";
import { cornerTexts, readCorners, sides, sizeOf, type Area, type Corners } from "./area";
import { crossesItself } from "./crossing";
import { readAreaFile, readAreaText } from "./files";

export type Drawing = "box" | "polygon" | null;

interface Given {
  draft: Draft;
  fault: string | undefined;
  required: boolean;
  help: string;
  drawing: Drawing;
  draw: (kind: Drawing) => void;
  set: (area: Area | null, show: boolean) => void; // show: move the map there
  type: (corner: keyof Corners, text: string) => void;
  typeGeoJSON: (text: string) => void;
  message: { kind: "info" | "error"; text: string } | null;
  upload: (files: FileList) => void;
}

export function AreaField({
  draft,
  fault,
  required,
  help,
  drawing,
  draw,
  set,
  type,
  typeGeoJSON,
  message,
  upload,
}: Given) {
  const { area } = draft;
  const file = useId();
  return (
    <Field
      group
      name=":area"
      label={
        <>
          {texts.form.area}{" "}
          {area && (
            <output class="soft" name="size">
              {sizeOf(area.geometry)}
              {area.name ? ` · ${area.name}` : ""}
            </output>
          )}
        </>
      }
      required={required}
      error={fault}
      help={<p>{help || texts.area.help}</p>}
    >
      {() => (
        <>
          <div class="row">
            <button
              type="button"
              aria-pressed={drawing === "box"}
              onClick={() => draw(drawing === "box" ? null : "box")}
            >
              {texts.area.box}
            </button>
            <button
              type="button"
              aria-pressed={drawing === "polygon"}
              onClick={() => draw(drawing === "polygon" ? null : "polygon")}
            >
              {texts.area.polygon}
            </button>
            <label class="button" for={file}>
              {texts.area.upload}
            </label>
            <input
              id={file}
              class="visually-hidden"
              type="file"
              accept=".geojson,.json,.kml,.zip"
              onChange={e => {
                if (e.currentTarget.files?.length) upload(e.currentTarget.files);
                e.currentTarget.value = "";
              }}
            />
            <CountryChoice choose={area => set(area, true)} />
          </div>
          <p class="small soft" aria-live="polite">
            {drawing === "box" ? texts.area.drawingBox : drawing === "polygon" ? texts.area.drawing : ""}
          </p>
          <CornerFields draft={draft} type={type} />
          <GeometryText draft={draft} type={typeGeoJSON} set={a => set(a, true)} />
          {message && <Notice {...message} />}
          {area && crossesItself(area.geometry) && (
            <div data-crosses>
              <Notice kind="warning" text={texts.area.crosses} />
            </div>
          )}
          {area && (
            <button type="button" class="quiet" onClick={() => set(null, false)}>
              {texts.area.remove}
            </button>
          )}
        </>
      )}
    </Field>
  );
}

function CornerFields({ draft: { area, typed }, type }: { draft: Draft; type: Given["type"] }) {
  const shown = cornerTexts(typed?.corners ?? {}, area);
  const bad = typed?.corners !== undefined && readCorners(shown) === "invalid";
  return (
    <>
      <div class="corners">
        {sides.map(side => (
          <label key={side}>
            {texts.area[side]}
            <input
              type="text"
              inputMode="decimal"
              name={side}
              aria-invalid={bad || undefined}
              value={shown[side]}
              onInput={e => type(side, e.currentTarget.value.replace("−", "-").replace(",", "."))}
            />
          </label>
        ))}
      </div>
      {bad && (
        <div class="fault" role="alert">
          {texts.area.badCoordinates}
        </div>
      )}
    </>
  );
}

function GeometryText({
  draft: { area, typed },
  type,
  set,
}: {
  draft: Draft;
  type: (text: string) => void;
  set: (area: Area) => void;
}) {
  const fault = useSignal("");
  const shown = useSignal(typed?.geojson !== undefined);
  const text = !shown.value ? "" : (typed?.geojson ?? (area ? JSON.stringify(area.geometry) : ""));
  const apply = () => {
    try {
      set(readAreaText(text));
      fault.value = "";
    } catch (e) {
      fault.value = (e as Error).message;
    }
  };
  return (
    <details open={shown.value} onToggle={e => (shown.value = e.currentTarget.open)}>
      <summary>{texts.area.geojson}</summary>
      <textarea
        class="code"
        rows={4}
        spellcheck={false}
        aria-label={texts.area.geojson}
        aria-invalid={fault.value !== "" || undefined}
        value={text}
        onInput={e => type(e.currentTarget.value)}
      />
      {fault.value && (
        <div class="fault" role="alert">
          {texts.area.badFile(texts.area.geojson, fault.value)}
        </div>
      )}
      <button type="button" onClick={apply}>
        {texts.area.apply}
      </button>
    </details>
  );
}

function CountryChoice({ choose }: { choose: (area: Area) => void }) {
  const failure = useSignal(false);
  const load = (name: string) => {
    failure.value = false;
    outlineOf(name).then(
      geometry => choose({ geometry, isBox: false, name }),
      () => (failure.value = true),
    );
  };
  return (
    <>
      <select
        class="button"
        name="country"
        aria-label={texts.area.chooseCountry}
        value=""
        onChange={e => {
          if (e.currentTarget.value) load(e.currentTarget.value);
          e.currentTarget.value = "";
        }}
      >
        <option value="">{texts.area.country}</option>
        {countryNames.map(name => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
      {failure.value && <span class="fault">{texts.errors.unreachable}</span>}
    </>
  );
}

// readFirst reads a file that was dropped or chosen.
export async function readFirst(files: FileList): Promise<{ area: Area; note: string | null } | { fault: string }> {
  const file = files[0]!;
  try {
    const { area, polygons } = await readAreaFile(file);
    return { area, note: polygons > 1 ? texts.area.several(polygons) : null };
  } catch (e) {
    return { fault: texts.area.badFile(file.name, (e as Error).message) };
  }
}
