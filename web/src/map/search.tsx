// The field in the corner of the map that finds places.
import { useSignal } from "@preact/signals";
import { useId, useMemo } from "preact/hooks";
import file from "../../earth/made/places.json?url";
import { texts } from "../texts";
import { boxAround } from "./antimeridian";
import { gazetteer, search, type Found, type Gazetteer, type Row } from "./places";
import type { Box } from "./stage";
import { outlineOf } from "./world";

const t = texts.map;

let loaded: Promise<Gazetteer> | undefined;

function load(): Promise<Gazetteer> {
  loaded ??= fetch(new URL(file, import.meta.url))
    .then(r => (r.ok ? (r.json() as Promise<Row[]>) : Promise.reject(new Error(String(r.status)))))
    .then(gazetteer);
  loaded.catch(() => (loaded = undefined));
  return loaded;
}

export function PlaceSearch({ show }: { show: (box: Box) => void }) {
  const text = useSignal("");
  const chosen = useSignal(0);
  const places = useSignal<Gazetteer>({ rows: [], plain: [] });
  const open = useSignal(false);
  const list = useId();
  const found = useMemo(() => search(text.value, places.value), [text.value, places.value]);
  const shown = open.value && text.value.trim() !== "";
  const go = ({ at, name }: Found) => {
    open.value = false;
    text.value = name;
    if ("country" in at) void outlineOf(at.country).then(outline => show(boxAround(outline)));
    else show(at);
  };
  const onKey = (e: KeyboardEvent) => {
    if (e.key === "Escape") open.value = false;
    if (e.key === "Enter" && found[chosen.value]) go(found[chosen.value]!);
    if (e.key !== "ArrowDown" && e.key !== "ArrowUp") return;
    e.preventDefault();
    const next = chosen.value + (e.key === "ArrowDown" ? 1 : -1);
    chosen.value = Math.max(0, Math.min(found.length - 1, next));
  };
  return (
    <div class="search">
      <input
        type="search"
        name="place"
        role="combobox"
        list={undefined}
        aria-label={t.search}
        placeholder={t.searchHint}
        aria-expanded={shown && found.length > 0}
        aria-controls={list}
        aria-activedescendant={shown && found.length > 0 ? `${list}-${chosen.value}` : undefined}
        autocomplete="off"
        value={text.value}
        onFocus={e => e.currentTarget.select()}
        onBlur={() => (open.value = false)}
        onInput={e => {
          text.value = e.currentTarget.value;
          chosen.value = 0;
          open.value = true;
          void load().then(
            all => (places.value = all),
            () => undefined,
          );
        }}
        onKeyDown={onKey}
      />
      <ul id={list} role="listbox" aria-label={t.search} hidden={!shown || found.length === 0}>
        {found.map((f, i) => (
          <li
            key={`${f.name} ${f.detail} ${i}`}
            id={`${list}-${i}`}
            role="option"
            aria-selected={i === chosen.value}
            onMouseDown={e => {
              e.preventDefault(); // the field keeps the focus
              go(f);
            }}
          >
            {f.name} <span class="soft small">{f.detail}</span>
          </li>
        ))}
      </ul>
      {shown && found.length === 0 && places.value.rows.length > 0 && (
        <p class="soft small nothing" role="status">
          {t.notFound}
        </p>
      )}
    </div>
  );
}
