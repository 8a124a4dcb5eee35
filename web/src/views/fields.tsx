// The fields of a run.
import { useMemo } from "preact/hooks";
import { settings } from "../api/session";
import { Field } from "../controls";
import type { JobRequest, Service, TaskRequest } from "../api/wire";
import { AreaField } from "../area/field";
import type { AreaMap } from "../area/map";
import type { Draft } from "../form/draft";
import { dimensionsOf } from "../form/dimensions";
import { ParameterField } from "../form/fields";
import { areaOf } from "../form/parameters";
import { formatName, formatsOf, type Faults } from "../form/request";
import type { Split } from "../form/split";
import { texts } from "../texts";
import { HowToRun } from "./how_to_run";

export function Fields({
  service,
  draft,
  faults,
  change,
  map,
  split,
  request,
}: {
  service: Service;
  draft: Draft;
  faults: Faults;
  change: (part: Partial<Draft>) => void;
  map: AreaMap;
  split: Split;
  request: JobRequest | TaskRequest;
}) {
  const area = areaOf(service.parameters ?? []);
  const formats = formatsOf(service);
  return (
    <>
      <Field name=":title" label={texts.form.title} help={texts.form.titleHelp} error={faults[":title"]}>
        {a => (
          <input
            {...a}
            type="text"
            name="title"
            maxLength={200}
            placeholder={request.title}
            value={draft.title}
            onInput={e => change({ title: e.currentTarget.value })}
          />
        )}
      </Field>
      {area && (
        <AreaField
          draft={draft}
          fault={faults[":area"]}
          required={!area.optional}
          help={area.description}
          drawing={map.drawing.value}
          draw={map.draw}
          set={map.set}
          type={map.type}
          typeGeoJSON={map.typeGeoJSON}
          message={map.message.value}
          upload={map.upload}
        />
      )}
      {service
        .parameters!.filter(p => p !== area)
        .map(p => (
          <ParameterField
            key={p.name}
            parameter={p}
            entry={draft.entries[p.name]}
            fault={faults[p.name]}
            set={entry => change({ entries: { ...draft.entries, [p.name]: entry } })}
          />
        ))}
      <Field name=":format" label={texts.form.format} required error={faults[":format"]}>
        {a => (
          <select
            {...a}
            name="format"
            value={draft.format || formats[0]}
            onChange={e => change({ format: e.currentTarget.value })}
          >
            {formats.map(f => (
              <option key={f} value={f}>
                {formatName(service, f)}
              </option>
            ))}
          </select>
        )}
      </Field>
      <HowToRun
        service={service}
        draft={draft}
        fault={faults[":several"]}
        change={change}
        split={split}
        request={request}
        hasArea={area !== null}
      />
      {service.homes && (
        <Field label={texts.platforms.where} help={texts.platforms.openHelp}>
          {a => (
            <select {...a} name="at" value={draft.at ?? ""} onChange={e => change({ at: e.currentTarget.value })}>
              <option value="">{texts.platforms.open}</option>
              {service.homes!.map(h => (
                <option key={h.platform} value={h.platform}>
                  {h.platform}
                </option>
              ))}
            </select>
          )}
        </Field>
      )}
      <LimitFields draft={draft} fault={faults[":limits"]} change={change} task={dimensionsOf(request).length > 0} />
      <div class="field">
        <label class="check">
          <input
            type="checkbox"
            name="pin"
            checked={draft.pin ?? false}
            aria-describedby="pin-help"
            onChange={e => change({ pin: e.currentTarget.checked })}
          />{" "}
          {texts.pin.label}
        </label>
        <div class="help" id="pin-help">
          {texts.pin.help}
        </div>
      </div>
    </>
  );
}

const helpOf = (name: keyof typeof texts.limits.help): string =>
  texts.limits.help[name] + (name === "notify" && settings.value.mail ? ` ${texts.limits.orMail}` : "");

// LimitFields has what few runs need: what a run may cost and take, and what it is found by.
function LimitFields({
  draft,
  fault,
  change,
  task,
}: {
  draft: Draft;
  fault: string | undefined;
  change: (part: Partial<Draft>) => void;
  task: boolean;
}) {
  const limits = draft.limits ?? {};
  const open = useMemo(() => Object.values(limits).some(Boolean), []);
  const names = (["budget", "trial", "retries", "hours", "notify", "labels", "note"] as const).filter(
    n => task || (n !== "budget" && n !== "trial"),
  );
  return (
    <details class="field limits" data-field=":limits" open={open || fault !== undefined}>
      <summary>{texts.limits.title}</summary>
      {names.map(n => (
        <Field key={n} label={texts.limits.names[n]} help={helpOf(n)}>
          {a => (
            <input
              {...a}
              type="text"
              inputMode={n === "labels" || n === "note" ? "text" : n === "notify" ? "url" : "decimal"}
              name={n}
              value={limits[n] ?? ""}
              onInput={e => change({ limits: { ...limits, [n]: e.currentTarget.value } })}
            />
          )}
        </Field>
      ))}
      {fault && <div class="fault">{fault}</div>}
    </details>
  );
}
