// The legend of the files of pixels on the map, and the fields of their colours.
import type { ComponentChildren } from "preact";
import { inField, rounded } from "../format";
import { classColour, gradient, type Palette } from "../map/palette";
import type { Stretch } from "../map/raster_layer";
import { texts } from "../texts";
import { bandName, type Rasters } from "./rasters";

const t = texts.results;

export function RasterControls({ rasters: r, children }: { rasters: Rasters; children?: ComponentChildren }) {
  if (r.shown.length === 0 && r.reading === 0 && !r.failure) return null;
  const colours = r.look.bands.length === 3;
  return (
    <section class="rasters" aria-label={t.preview} data-shown={r.shown.length}>
      <div aria-live="polite">
        {r.reading > 0 && <p>{t.reading(r.shown.length, r.shown.length + r.reading)}</p>}
        {r.failure && <p class="fault">{r.failure}</p>}
      </div>
      {r.shown.length > 0 && (
        <>
          {children}
          {!colours && <Legend rasters={r} />}
          <details>
            <summary>{t.look}</summary>
            <LookFields rasters={r} />
          </details>
        </>
      )}
    </section>
  );
}

// Legend says what the colours mean: classes by name, or the ends of the range with their unit.
function Legend({ rasters: r }: { rasters: Rasters }) {
  const band = r.look.bands[0] ?? 0;
  if (r.classes.length > 0)
    return (
      <ul class="classes" aria-label={texts.map.legend}>
        {r.classes.map((c, i) => (
          <li key={c.value}>
            <span class="swatch" style={{ backgroundColor: `rgb(${classColour(c, i).join(" ")})` }} />
            {c.label}
          </li>
        ))}
      </ul>
    );
  const unit = r.bands[band]?.unit ? ` ${r.bands[band].unit}` : "";
  return (
    <div class="scale">
      <span>{bandName(r.bands, band)}</span>
      <div class="gradient" style={{ backgroundImage: gradient(r.look.palette) }} />
      <div class="row between num">
        <span>{rounded(r.range[0]) + unit}</span>
        <span>{rounded(r.range[1]) + unit}</span>
      </div>
    </div>
  );
}

function LookFields({ rasters: r }: { rasters: Rasters }) {
  const colours = r.look.bands.length === 3;
  const numeric = (side: "low" | "high", text: string) => {
    const n = Number(text.replace(",", "."));
    if (text.trim() !== "" && Number.isFinite(n)) r.choose({ [side]: n });
  };
  return (
    <>
      <div class="row">
        {r.bands.length > 1 && <BandChoice rasters={r} />}
        {!colours && (
          <Choice
            label={t.palette}
            value={r.look.palette}
            options={t.palettes}
            choose={palette => r.choose({ palette: palette as Palette })}
          />
        )}
        <Choice
          label={t.stretch}
          value={r.look.stretch}
          options={t.stretches}
          choose={stretch => r.choose({ stretch: stretch as Stretch, low: null, high: null })}
        />
      </div>
      {!colours && (
        <div class="row between">
          {(["low", "high"] as const).map((side, i) => (
            <label key={side}>
              {t[side]}
              <input
                type="text"
                inputMode="decimal"
                value={inField(r.range[i]!)}
                onChange={e => numeric(side, e.currentTarget.value)}
              />
            </label>
          ))}
        </div>
      )}
      <label>
        {t.opacity}
        <input
          type="range"
          name="opacity"
          min={0}
          max={100}
          defaultValue="100"
          onInput={e => r.setOpacity(Number(e.currentTarget.value) / 100)}
        />
      </label>
      <div class="row">
        {!colours && (
          <button type="button" class="quiet" onClick={() => r.choose({ low: null, high: null })}>
            {t.auto}
          </button>
        )}
        <button type="button" class="quiet" onClick={() => r.hide()}>
          {t.hideAll}
        </button>
      </div>
    </>
  );
}

function Choice({
  label,
  value,
  options,
  choose,
  name,
}: {
  label: string;
  value: string;
  options: Record<string, string>;
  choose: (value: string) => void;
  name?: string;
}) {
  return (
    <label>
      {label}
      <select name={name} value={value} onChange={e => choose(e.currentTarget.value)}>
        {Object.entries(options).map(([key, text]) => (
          <option key={key} value={key}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

// BandChoice offers each band and, from three bands on, three of them as a colour picture.
function BandChoice({ rasters: r }: { rasters: Rasters }) {
  const bands = Object.fromEntries(r.bands.map((_, i) => [i, bandName(r.bands, i)]));
  const chosen = r.look.bands;
  const colours = chosen.length === 3;
  const choose = (next: number[]) => r.choose({ bands: next, low: null, high: null });
  return (
    <>
      <Choice
        name="bands"
        label={t.band}
        value={colours ? "colours" : String(chosen[0])}
        options={r.bands.length >= 3 ? { ...bands, colours: t.colours } : bands}
        choose={v => choose(v === "colours" ? [0, 1, 2] : [Number(v)])}
      />
      {colours &&
        t.channels.map((label, i) => (
          <Choice
            key={label}
            name={`band-${i}`}
            label={label}
            value={String(chosen[i])}
            options={bands}
            choose={v => choose(chosen.map((b, k) => (k === i ? Number(v) : b)))}
          />
        ))}
    </>
  );
}
