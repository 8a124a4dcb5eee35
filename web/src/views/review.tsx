// The last page before a run starts: what runs where, what it meets, and the same request for other tools.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { address, get } from "../api/client";
import { signIn, signInAddress } from "../api/session";
import {
  platformsOf,
  type JobRequest,
  type Platform,
  type PlatformList,
  type Service,
  type TaskRequest,
} from "../api/wire";
import { sizeInKm2, sizeOf } from "../area/area";
import { crossesItself } from "../area/crossing";
import { AttentionNotice, Copy, Failure, Notice, save } from "../controls";
import type { Draft } from "../form/draft";
import { dimensionsOf, jobsOf, lengthOf } from "../form/dimensions";
import { areaOf, label } from "../form/parameters";
import { asCommand, asCurl, asPython, formatName } from "../form/request";
import { Shown } from "../form/shown";
import { count, rounded } from "../format";
import { texts } from "../texts";
import { costOf } from "./service";

const t = texts.run;
const again = 5_000; // ms between two reads of the platforms' states

export function Review({
  service,
  draft,
  request,
  submit,
  failure,
  back,
}: {
  service: Service;
  draft: Draft;
  request: JobRequest | TaskRequest;
  submit: () => Promise<void>;
  failure: unknown;
  back: () => void;
}) {
  const list = useSignal<PlatformList | null>(null);
  const busy = useSignal(false);
  const heading = useRef<HTMLHeadingElement>(null);
  const user = signIn.value.state;
  useEffect(() => heading.current?.focus(), []);
  useEffect(() => {
    if (user !== "in") return;
    const read = () =>
      void get<PlatformList>("platforms")
        .then(found => (list.value = found))
        .catch(() => undefined);
    read();
    const timer = setInterval(read, again);
    return () => clearInterval(timer);
  }, [user]);
  const area = areaOf(service.parameters ?? []);
  const jobs = jobsOf(request);
  const names = service.homes && draft.at ? [draft.at] : platformsOf(service);
  const platforms = (list.value?.platforms ?? []).filter(p => names.includes(p.name));
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
        <div>
          <dt>{texts.form.format}</dt>
          <dd data-format={request.format}>{formatName(service, request.format)}</dd>
        </div>
        <div>
          <dt>{t.jobs}</dt>
          <dd data-jobs={jobs}>{count(jobs, "job", "jobs")}</dd>
        </div>
        <div>
          <dt>{t.cost}</dt>
          <dd>
            <Cost service={service} draft={draft} />
          </dd>
        </div>
      </dl>
      {list.value &&
        platforms.map(p => (
          <Limits key={p.name} list={list.value!} platform={p} jobs={jobs} alone={names.length === 1} />
        ))}
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

// Cost estimates by the area where the provider gives a cost per km².
function Cost({ service, draft }: { service: Service; draft: Draft }) {
  const { estimate, unit } = service.cost ?? {};
  if (estimate != null && unit && draft.area && !crossesItself(draft.area.geometry) && /per\s*km(2|²)/i.test(unit)) {
    return <>{t.costOf(rounded(estimate * sizeInKm2(draft.area.geometry)), unit.replace(/\s*per\s*km(2|²)/i, ""))}</>;
  }
  return <>{costOf(service) ?? t.noCost}</>;
}

// Limits shows what a request meets at a platform. If it is not alone, other platforms can run what this one cannot.
function Limits({
  list,
  platform: p,
  jobs,
  alone,
}: {
  list: PlatformList;
  platform: Platform;
  jobs: number;
  alone: boolean;
}) {
  const lines: string[] = [];
  if (p.slots.of !== null) lines.push(t.slots(p.slots.of));
  const live = p.live.of !== null ? p.live : list.live;
  const day = p.last_day.of !== null ? p.last_day : list.last_day;
  if (live.of !== null) lines.push(t.liveLimit(live.used, live.of));
  if (day.of !== null) lines.push(t.dayLimit(day.used, day.of));
  if (p.queue_length > 0) lines.push(t.queue(p.queue_length));
  const over = [...(alone ? [p.live, p.last_day] : []), list.live, list.last_day].some(
    s => s.of !== null && s.used + jobs > s.of,
  );
  const troubled =
    p.state === "unreachable" || p.state === "busy" || p.state === "misconfigured" || p.state === "forbidden";
  return (
    <>
      {p.attention && <AttentionNotice attention={p.attention} />}
      {troubled && !p.attention && (
        <Notice kind="warning">
          <p>{t.notWorking(texts.state[p.state])}</p>
        </Notice>
      )}
      {over && (
        <Notice kind="error">
          <p>{t.overLimit}</p>
        </Notice>
      )}
      {lines.length > 0 && (
        <>
          <h2>{alone ? t.limits : t.limitsAt(p.name)}</h2>
          <ul class="soft small">
            {lines.map(l => (
              <li key={l}>{l}</li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}

function Elsewhere({ service, draft, request }: { service: Service; draft: Draft; request: JobRequest | TaskRequest }) {
  const tool = useSignal<"curl" | "command" | "python">("curl");
  const text = {
    curl: () => asCurl(request, draft.key),
    command: () => asCommand(service, draft, request),
    python: () => asPython(request, draft.key),
  }[tool.value]();
  return (
    <section class="elsewhere">
      <h2>{t.same}</h2>
      <div class="row between">
        <div class="segments" role="group" aria-label={t.same}>
          {(["curl", "command", "python"] as const).map(name => (
            <button key={name} type="button" aria-pressed={tool.value === name} onClick={() => (tool.value = name)}>
              {t[name]}
            </button>
          ))}
        </div>
        <Copy text={text} />
      </div>
      <pre tabIndex={0} data-tool={tool.value}>
        {text}
      </pre>
      <div class="row small">
        <button
          type="button"
          class="quiet"
          onClick={() => save("request.json", JSON.stringify(request), "application/json")}
        >
          {t.request}
        </button>
        {draft.area && (
          <button
            type="button"
            class="quiet"
            onClick={() => save("area.geojson", JSON.stringify(draft.area!.geometry), "application/geo+json")}
          >
            {t.areaFile}
          </button>
        )}
      </div>
      <p class="soft small">{tool.value === "command" ? t.login(address("").href) : t.token}</p>
    </section>
  );
}
