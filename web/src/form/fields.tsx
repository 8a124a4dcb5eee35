// Controls of parameters.
import { Field, type InputEvent } from "../controls";
import type { Parameter } from "../api/wire";
import { texts } from "../texts";
import { controlOf, label, type Entry } from "./parameters";
import { presets } from "./presets";

interface Given {
  parameter: Parameter;
  entry: Entry | undefined;
  fault: string | undefined;
  set: (entry: Entry) => void;
}

export function ParameterField({ parameter: p, entry, fault, set }: Given) {
  const kind = controlOf(p);
  if (kind === "boolean") return <Switch {...{ parameter: p, entry, fault, set }} />;
  const text = typeof entry === "string" ? entry : "";
  const change = (event: InputEvent) => set(event.currentTarget.value);
  return (
    <Field
      name={p.name}
      label={label(p.name)}
      help={<Help parameter={p} />}
      error={fault}
      required={!p.optional}
      group={kind === "interval" || kind === "choices"}
    >
      {attributes => {
        switch (kind) {
          case "interval":
            return <Interval entry={entry} set={set} invalid={fault !== undefined} />;
          case "choices":
            return <Choices parameter={p} entry={entry} set={set} />;
          case "choice":
            return (
              <select {...attributes} value={text} onChange={change} required={!p.optional}>
                {(p.optional || p.nullable || text === "") && <option value="">{texts.form.notGiven}</option>}
                {p.options.map(o => (
                  <option key={JSON.stringify(o)} value={JSON.stringify(o)}>
                    {String(o)}
                  </option>
                ))}
              </select>
            );
          case "number":
            return (
              <input
                {...attributes}
                type="number"
                inputMode="decimal"
                value={text}
                onInput={change}
                min={p.minimum}
                max={p.maximum}
                step={p.type === "integer" ? 1 : "any"}
                required={!p.optional}
              />
            );
          case "date":
            return <input {...attributes} type="date" value={text} onInput={change} required={!p.optional} />;
          case "datetime":
            return <input {...attributes} type="datetime-local" value={text} onInput={change} required={!p.optional} />;
          case "text":
            return <input {...attributes} type="text" value={text} onInput={change} required={!p.optional} />;
          case "lines":
            return <textarea {...attributes} rows={3} value={text} onInput={change} />;
        }
        return <textarea {...attributes} rows={5} class="code" spellcheck={false} value={text} onInput={change} />;
      }}
    </Field>
  );
}

function Help({ parameter: p }: { parameter: Parameter }) {
  const notes: string[] = [];
  if (p.description) notes.push(p.description);
  if (p.minimum !== undefined && p.maximum !== undefined) notes.push(texts.form.between(p.minimum, p.maximum));
  else if (p.minimum !== undefined) notes.push(texts.form.least(p.minimum));
  else if (p.maximum !== undefined) notes.push(texts.form.most(p.maximum));
  const kind = controlOf(p);
  if (kind === "lines") notes.push(texts.form.lines);
  if (kind === "datetime") notes.push(texts.form.utc);
  if (kind === "json") notes.push(texts.form.json);
  return (
    <>
      {notes.map(n => (
        <p key={n}>{n}</p>
      ))}
      {p.warning && <p class="soft">{p.warning}</p>}
    </>
  );
}

function Switch({ parameter: p, entry, fault, set }: Given) {
  const id = `switch-${p.name}`;
  return (
    <div class="field" data-field={p.name}>
      <div class="check">
        <input
          type="checkbox"
          id={id}
          checked={entry === true}
          onChange={e => set(e.currentTarget.checked)}
          aria-describedby={`${id}-help`}
        />
        <label for={id}>{label(p.name)}</label>
      </div>
      <div class="help" id={`${id}-help`}>
        <Help parameter={p} />
      </div>
      {fault && <div class="fault">{fault}</div>}
    </div>
  );
}

// The first year of Landsat is the sensible limit of most archives. Dates before it are not refused.
const earliest = "1972-01-01";

function Interval({
  entry,
  set,
  invalid,
}: {
  entry: Entry | undefined;
  set: (entry: Entry) => void;
  invalid: boolean;
}) {
  const { from, to } = typeof entry === "object" && !Array.isArray(entry) ? entry : { from: "", to: "" };
  const today = new Date().toISOString().slice(0, 10);
  const days = Math.round((Date.parse(to) - Date.parse(from)) / 86_400_000);
  return (
    <>
      <div class="pair">
        <label>
          {texts.form.from}
          <input
            type="date"
            name="from"
            value={from}
            min={earliest}
            max={to || today}
            aria-invalid={invalid || undefined}
            onInput={e => set({ from: e.currentTarget.value, to })}
          />
        </label>
        <label>
          {texts.form.until}
          <input
            type="date"
            name="until"
            value={to}
            min={from || earliest}
            aria-invalid={invalid || undefined}
            onInput={e => set({ from, to: e.currentTarget.value })}
          />
        </label>
      </div>
      <div class="row">
        {presets(new Date()).map(preset => (
          <button
            key={preset.name}
            type="button"
            class="chip"
            onClick={() => set({ from: preset.from, to: preset.to })}
          >
            {preset.name}
          </button>
        ))}
      </div>
      {days > 0 && <p class="soft small">{texts.form.span(from, to, days)}</p>}
    </>
  );
}

function Choices({
  parameter: p,
  entry,
  set,
}: {
  parameter: Parameter;
  entry: Entry | undefined;
  set: (entry: Entry) => void;
}) {
  const chosen = Array.isArray(entry) ? entry : [];
  return (
    <div class="choices">
      {p.options.map(o => {
        const key = JSON.stringify(o);
        return (
          <label key={key} class="check">
            <input
              type="checkbox"
              checked={chosen.includes(key)}
              onChange={e => set(e.currentTarget.checked ? [...chosen, key] : chosen.filter(c => c !== key))}
            />
            {String(o)}
          </label>
        );
      })}
    </div>
  );
}
