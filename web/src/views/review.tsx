// The last page before a run starts: what runs where, what it meets, and the same request for other tools.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { ask, get } from "../api/client";
import { useResource } from "../api/resource";
import { signIn, signInAddress } from "../api/session";
import {
  platformsOf,
  type Estimate,
  type JobRequest,
  type PlatformList,
  type Service,
  type TaskOptions,
  type TaskRequest,
} from "../api/wire";
import { sizeOf } from "../area/area";
import { Failure, Notice } from "../controls";
import type { Draft } from "../form/draft";
import { dimensionsOf, jobsOf, lengthOf } from "../form/dimensions";
import { areaOf, label } from "../form/parameters";
import { formatName } from "../form/request";
import { Shown } from "../form/shown";
import type { Sent } from "../form/sent";
import { count, duration, km2, range, rounded, share } from "../format";
import { texts } from "../texts";
import { Elsewhere } from "./elsewhere";
import { Limits } from "./platform_limits";
import { costOf } from "./service";

const t = texts.run;
const again = 5_000; // ms between two reads of the platforms' states

export function Review({
  service,
  draft,
  request,
  sent,
  submit,
  failure,
  back,
}: {
  service: Service;
  draft: Draft;
  request: JobRequest | TaskRequest;
  sent: Sent | null; // what is sent if the service takes boxes, and more than was drawn
  submit: () => Promise<void>;
  failure: unknown;
  back: () => void;
}) {
  const busy = useSignal(false);
  const heading = useRef<HTMLHeadingElement>(null);
  const user = signIn.value.state;
  useEffect(() => heading.current?.focus(), []);
  const { value: list } = useResource(
    user === "in" ? abort => get<PlatformList>("platforms", abort) : null,
    [user],
    again,
  );
  const area = areaOf(service.parameters ?? []);
  const jobs = jobsOf(request);
  const names = service.homes && draft.at ? [draft.at] : platformsOf(service);
  const platforms = (list?.platforms ?? []).filter(p => names.includes(p.name));
  const start = () => {
    busy.value = true;
    void submit().finally(() => (busy.value = false));
  };
  return (
    <>
      <h1 ref={heading} tabIndex={-1}>
        {t.reviewTitle}
      </h1>
      <dl class="facts">
        <div>
          <dt>{t.what}</dt>
          <dd>
            {request.title}
            <br />
            <span class="soft small">
              {service.title}
              {request.options?.pin && `, ${texts.pin.pinned}`}
            </span>
          </dd>
        </div>
        <div>
          <dt>{t.where}</dt>
          <dd data-where={names.length}>
            {names.join(", ")}
            {platforms[0] && names.length === 1 && <>, {t.account[platforms[0].access]}</>}
            {names.length > 1 && (
              <>
                <br />
                <span class="soft small">{texts.platforms.open}</span>
              </>
            )}
          </dd>
        </div>
        {draft.area && (
          <div>
            <dt>{texts.form.area}</dt>
            <dd>
              {sizeOf(draft.area.geometry)}
              {draft.area.name ? ` · ${draft.area.name}` : ""}
            </dd>
          </div>
        )}
        {Object.entries(request.parameters)
          .filter(([name]) => name !== area?.name)
          .map(([name, v]) => (
            <div key={name}>
              <dt>{label(name)}</dt>
              <dd>
                <Shown value={v} />
              </dd>
            </div>
          ))}
        {dimensionsOf(request)
          .filter(d => d.name !== area?.name)
          .map(d => (
            <div key={d.name} data-dimension={d.name}>
              <dt>{label(d.name)}</dt>
              <dd>
                {"values" in d ? (
                  <Shown value={d.values} />
                ) : (
                  <>
                    <Shown value={d.interval} />, {texts.several.steps[d.split].toLowerCase()}
                  </>
                )}{" "}
                <span class="soft">· {count(lengthOf(d), "value", "values")}</span>
              </dd>
            </div>
          ))}
        {limitsIn(request).map(([name, v]) => (
          <div key={name} data-limit={name}>
            <dt>{name}</dt>
            <dd>{v}</dd>
          </div>
        ))}
        <div>
          <dt>{texts.form.format}</dt>
          <dd data-format={request.format}>{formatName(service, request.format)}</dd>
        </div>
        <div>
          <dt>{t.jobs}</dt>
          <dd data-jobs={jobs}>{count(jobs, "job", "jobs")}</dd>
        </div>
        <Cost service={service} request={request} />
      </dl>
      {sent && <SentBoxes sent={sent} />}
      {list &&
        platforms.map(p => <Limits key={p.name} list={list} platform={p} jobs={jobs} alone={names.length === 1} />)}
      {failure !== null && <Failure error={failure} />}
      <div class="actions">
        {user === "in" ? (
          <button type="button" class="primary" disabled={busy.value} onClick={start}>
            {busy.value ? t.starting : t.start(jobs)}
          </button>
        ) : (
          <a class="button primary" href={signInAddress()}>
            {texts.signIn.button}
          </a>
        )}
        <button type="button" onClick={back}>
          {t.back}
        </button>
      </div>
      <Elsewhere service={service} draft={draft} request={request} />
    </>
  );
}

// limitsIn returns the limits, labels and note of a request by their names.
function limitsIn({ options, labels, note }: JobRequest | TaskRequest): [string, string][] {
  const { names } = texts.limits;
  const of: TaskOptions = options ?? {};
  const all: [string, string | undefined][] = [
    [names.budget, typeof of.budget === "number" ? rounded(of.budget) : undefined],
    [names.trial, of.trial ? count(of.trial, "job", "jobs") : undefined],
    [names.retries, of.retries ? String(of.retries) : undefined],
    [names.notify, of.notify?.url.replace(/^mailto:/, "")],
    [names.hours, of.max_duration ? duration(of.max_duration) : undefined],
    [
      names.labels,
      Object.entries(labels ?? {})
        .map(([k, v]) => `${k}=${v}`)
        .join(", "),
    ],
    [names.note, note ?? undefined],
  ];
  return all.filter((entry): entry is [string, string] => !!entry[1]);
}

// Cost shows what the broker expects a request to cost and to take, and the price that the provider gives.
function Cost({ service, request }: { service: Service; request: JobRequest | TaskRequest }) {
  const body = JSON.stringify(request);
  const signedIn = signIn.value.state === "in";
  const read = async (signal: AbortSignal) => (await ask<Estimate>("POST", "estimate", { body: request, signal })).body;
  const { value: e, error } = useResource(signedIn ? read : null, [body]);
  const price = costOf(service);
  const costs = e?.costs && `${range(e.costs.low, e.costs.likely, e.costs.high, rounded)} ${e.cost_unit}`.trim();
  const seconds = e?.seconds && range(e.seconds.low, e.seconds.likely, e.seconds.high, duration);
  return (
    <>
      <div data-estimate={e ? (costs ? "known" : "none") : undefined}>
        <dt>{t.cost}</dt>
        <dd>
          {costs && <strong>{t.estimated(costs, e.cost_runs, e.cost_basis ?? "")}</strong>}
          {!costs && (signedIn && !e && error === null ? t.estimating : !price && t.noCost)}
          {price && <p class="soft small">{t.price(price)}</p>}
        </dd>
      </div>
      {seconds && (
        <div>
          <dt>{t.runTime}</dt>
          <dd>{t.takes(seconds, e.seconds_runs, e.seconds_basis ?? "")}</dd>
        </div>
      )}
    </>
  );
}

// SentBoxes warns that more is processed than was drawn, because the service takes boxes.
function SentBoxes({ sent }: { sent: Sent }) {
  return (
    <div data-sent={sent.boxes.length} data-more={Math.round(sent.more * 100)}>
      <Notice kind="warning">
        <p>{t.sent(sent.boxes.length, share(sent.more))}</p>
        <p class="small">{t.sentHelp(km2(sent.sent))}</p>
      </Notice>
    </div>
  );
}
