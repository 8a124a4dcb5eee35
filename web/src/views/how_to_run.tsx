// The dimensions of a task: tiles, parts of the time, and several values of a parameter.
import type { JobRequest, Parameter, Service, Step, TaskRequest } from "../api/wire";
import type { Draft } from "../form/draft";
import { dimensionsOf, intervalOf, isZipped, jobsOf, lengthOf, several, steps, unequal } from "../form/dimensions";
import { label } from "../form/parameters";
import type { Split } from "../form/split";
import { texts } from "../texts";
import { SplitField } from "./tiling";

// HowToRun asks for the dimensions of a task, and counts its jobs.
export function HowToRun({
  service,
  draft,
  fault,
  change,
  split,
  request,
  hasArea,
}: {
  service: Service;
  draft: Draft;
  fault: string | undefined;
  change: (part: Partial<Draft>) => void;
  split: Split;
  request: JobRequest | TaskRequest;
  hasArea: boolean;
}) {
  const parameters = service.parameters ?? [];
  const [time, others] = [intervalOf(parameters), several(parameters)];
  if (!hasArea && !time && others.length === 0) return null;
  const dimensions = dimensionsOf(request);
  const counted = !draft.split || split.state === "ready";
  return (
    <fieldset class="field box" data-field=":several" aria-invalid={fault !== undefined || undefined}>
      <legend>{texts.split.title}</legend>
      {hasArea && <SplitField draft={draft} change={change} split={split} />}
      {time && (
        <label>
          {texts.several.time}
          <select
            name="step"
            value={draft.step ?? ""}
            onChange={e => change({ step: e.currentTarget.value as Step | "" })}
          >
            <option value="">{texts.several.whole}</option>
            {steps.map(s => (
              <option key={s} value={s}>
                {texts.several.steps[s]}
              </option>
            ))}
          </select>
        </label>
      )}
      {others.length > 0 && <OverField draft={draft} change={change} others={others} />}
      {dimensions.length > 1 && (
        <label>
          {texts.several.combine}
          <select
            name="combine"
            value={draft.zip ? "zip" : "product"}
            onChange={e => change({ zip: e.currentTarget.value === "zip" })}
          >
            <option value="product">{texts.several.product}</option>
            <option value="zip">{texts.several.zip}</option>
          </select>
        </label>
      )}
      {fault && <div class="fault">{fault}</div>}
      {(draft.step || draft.over) && counted && <Combinations request={request} />}
    </fieldset>
  );
}

// Combinations says how many jobs the dimensions make, or why they make none.
function Combinations({ request }: { request: JobRequest | TaskRequest }) {
  const lengths = unequal(request);
  if (lengths)
    return (
      <p aria-live="polite" data-combinations={0}>
        {texts.several.unequal(lengths)}
      </p>
    );
  const parts = isZipped(request) ? [] : dimensionsOf(request).map(lengthOf);
  return (
    <p aria-live="polite" data-combinations={jobsOf(request)}>
      <strong>{texts.several.jobs(jobsOf(request), parts)}</strong>
    </p>
  );
}

// OverField takes several values of one parameter.
function OverField({
  draft,
  change,
  others,
}: {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
  others: Parameter[];
}) {
  const over = draft.over ?? null;
  const known = others.find(p => p.name === over?.name);
  return (
    <>
      <label>
        {texts.several.over}
        <select
          name="over"
          value={known?.name ?? ""}
          onChange={e =>
            change({
              over: e.currentTarget.value === "" ? null : { name: e.currentTarget.value, lines: over?.lines ?? "" },
            })
          }
        >
          <option value="">{texts.several.overNone}</option>
          {others.map(p => (
            <option key={p.name} value={p.name}>
              {label(p.name)}
            </option>
          ))}
        </select>
      </label>
      {known && (
        <label>
          {texts.several.lines}
          <textarea
            name="values"
            rows={4}
            spellcheck={false}
            value={over!.lines}
            onInput={e => change({ over: { name: known.name, lines: e.currentTarget.value } })}
          />
          <span class="help">
            {known.options.length > 0 ? `${known.options.map(String).join(", ")}. ` : ""}
            {texts.several.linesHelp}
          </span>
        </label>
      )}
    </>
  );
}
