// A new run: the form of a service, its area on the map, and a review before anything starts.
import { useSignal, useSignalEffect, type Signal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { newKey, post } from "../api/client";
import { settings } from "../api/session";
import type { Job, Service, TaskSummary } from "../api/wire";
import { cornerTexts, readCorners } from "../area/area";
import { DrawingTools, useAreaMap, type AreaMap } from "../area/map";
import { errorText, Failure, Loading, Notice, useTitle } from "../controls";
import { draftOfRun } from "../form/again";
import { jobsOf, unequal } from "../form/dimensions";
import { draftFor, fresh, type Draft } from "../form/draft";
import { faultsOf, isTask, pathOf, prepare, type Faults } from "../form/request";
import { sentOf } from "../form/sent";
import { splitFault, splitReady, tooMany, useSplit } from "../form/split";
import { MapView } from "../map/view";
import { go, query, setQuery, to } from "../route";
import { texts } from "../texts";
import { FaultSummary } from "./fault_summary";
import { Fields } from "./fields";
import { Review } from "./review";
import { costOf, useService } from "./service";
import { Origin } from "./services";

const t = texts.run;

export function NewRun({ id }: { id: string }) {
  const { service, error, again } = useService(id);
  useTitle(t.title(service?.title ?? ""));
  if (!service) return <div class="page">{error ? <Failure error={error} again={again} /> : <Loading />}</div>;
  if (!service.parameters) {
    return (
      <div class="page narrow">
        <h1>{t.title(service.title)}</h1>
        <Notice
          kind="error"
          action={
            <button type="button" onClick={again}>
              {texts.tryAgain}
            </button>
          }
        >
          <p>
            {texts.service.noParameters} {service.parameters_error?.message}
          </p>
        </Notice>
      </div>
    );
  }
  return <Form key={service.id} service={service} />;
}

function Form({ service }: { service: Service }) {
  const draft = useMemo(() => startOf(service), [service]);
  const faults = useSignal<Faults>({});
  const general = useSignal<string[]>([]);
  const failure = useSignal<unknown>(null);
  const split = useSplit(draft);
  const map = useAreaMap(draft);
  const summary = useRef<HTMLDivElement>(null);
  const beginnings = useSignal(0);
  const refusals = useSignal(0);
  useFormer(service, draft, map, beginnings);
  const { tiles, ids } = split.value.state === "ready" ? split.value : { tiles: [], ids: [] };
  const prepared = prepare(service, draft.value, tiles, ids);
  const change = (part: Partial<Draft>) => (draft.value = { ...draft.value, ...part, key: newKey() });

  useSignalEffect(() => {
    const shown =
      draft.value.split && split.value.state === "ready" && !tooMany(split.value.tiles.length)
        ? split.value
        : { tiles: [], slivers: [] };
    map.layer.value?.showTiles(shown.tiles, shown.slivers, sentOf(service, draft.value, shown.tiles)?.boxes ?? []);
  });

  const refuse = (found: Faults, others: string[] = []) => {
    faults.value = found;
    general.value = others;
    setQuery({ step: "" });
    refusals.value++;
  };
  useEffect(() => {
    if (refusals.value > 0) summary.current?.focus();
  }, [refusals.value]);
  const review = () => {
    const found: Faults = { ...prepared.faults, ...splitFault(draft.value, split.value) };
    if (tooMany(jobsOf(prepared.request)) && !found[":area"])
      found[":several"] = texts.several.overLimit(jobsOf(prepared.request), settings.value.limits.values ?? 0);
    const lengths = unequal(prepared.request);
    if (lengths && !found[":area"]) found[":several"] ??= texts.several.unequal(lengths);
    if (isUnclear(draft.value)) found[":area"] = texts.area.badCoordinates;
    if (Object.keys(found).length > 0) return refuse(found);
    faults.value = {};
    general.value = [];
    failure.value = null; // of what was entered before
    setQuery({ step: "review" });
  };
  const begin = (example?: Service["example"]) => {
    draft.value = { ...fresh(service, example ?? {}), ...(example && { title: draft.value.title }) };
    map.set(draft.value.area, true);
    faults.value = {};
    general.value = [];
    beginnings.value++;
  };
  const submit = async () => {
    failure.value = null;
    try {
      const made = await post<Job | TaskSummary>(pathOf(prepared.request), prepared.request, {
        "Idempotency-Key": draft.value.key,
      });
      const path = isTask(prepared.request) ? "tasks" : "jobs";
      change({ started: { path, id: made.id } }); // with a new key: to start it again is another run
      setQuery({ step: "" }); // the way back leads to the form, which still holds what was entered
      go(to([path, String(made.id)]));
    } catch (e) {
      failure.value = e;
      const found = faultsOf(e, service);
      if (Object.keys(found.faults).length + found.general.length > 0) refuse(found.faults, found.general);
    }
  };
  const reviewing =
    query.value.get("step") === "review" &&
    Object.keys(prepared.faults).length === 0 &&
    splitReady(draft.value, split.value);
  return (
    <div class="split" data-view={reviewing ? "review" : "run"} data-state="ready">
      <div class="panel">
        {reviewing ? (
          <Review
            service={service}
            draft={draft.value}
            request={prepared.request}
            sent={sentOf(service, draft.value, tiles)}
            submit={submit}
            failure={failure.value}
            back={() => setQuery({ step: "" })}
          />
        ) : (
          <form
            noValidate
            onSubmit={e => {
              e.preventDefault();
              review();
            }}
          >
            <p>
              <a href={to(["services", service.id])}>← {service.title}</a>
            </p>
            <h1>{t.title(service.title)}</h1>
            <p class="soft small">
              <Origin service={service} />
              {costOf(service) && <> · {costOf(service)}</>}
            </p>
            {draft.value.started && <Started run={draft.value.started} />}
            <FaultSummary service={service} faults={faults.value} general={general.value} focus={summary} />
            {service.example && !draft.value.area && (
              <p>
                <button type="button" class="example" onClick={() => begin(service.example)}>
                  {texts.form.example}
                </button>
              </p>
            )}
            <Fields
              key={beginnings.value}
              service={service}
              draft={draft.value}
              faults={faults.value}
              change={change}
              map={map}
              split={split.value}
              request={prepared.request}
            />
            <div class="actions">
              <button type="submit" class="primary">
                {t.review}
              </button>
              <button type="button" class="quiet" onClick={() => begin()}>
                {texts.form.reset}
              </button>
            </div>
            <p class="soft small">{texts.form.kept}</p>
          </form>
        )}
      </div>
      <MapView
        label={texts.area.map}
        onStage={map.onStage}
        onFit={map.fit}
        onFiles={map.upload}
        tools={!reviewing && <DrawingTools map={map} hasArea={draft.value.area !== null} />}
      />
    </div>
  );
}

// Started says which run was started with what the form holds.
function Started({ run: { path, id } }: { run: NonNullable<Draft["started"]> }) {
  const name = path === "tasks" ? texts.task.task(id) : texts.job.job(id);
  return (
    <div data-started={id}>
      <Notice
        kind="done"
        action={
          <a class="button" href={to([path, String(id)])}>
            {name}
          </a>
        }
      >
        <p>{t.started(name)}</p>
      </Notice>
    </div>
  );
}

// isUnclear reports whether what was typed into the fields of the corners is not the area.
function isUnclear({ area, typed }: Draft): boolean {
  const read = typed?.corners && readCorners(cornerTexts(typed.corners, area));
  return read === "incomplete" || read === "invalid";
}

// useFormer fills the form in with an earlier run, if the address names one ("job-7", "task-7").
function useFormer(service: Service, draft: Signal<Draft>, map: AreaMap, beginnings: Signal<number>): void {
  useEffect(() => {
    const from = query.value.get("from") ?? "";
    if (!/^(job|task)-\d+$/.test(from)) return;
    setQuery({ from: "" });
    void draftOfRun(service, from).then(
      found => {
        draft.value = found;
        map.set(found.area, true);
        beginnings.value++;
      },
      (e: unknown) => (map.message.value = { kind: "error", text: errorText(e) }),
    );
  }, [service]);
}

// startOf returns the draft: with the values of the service's example if the address asks for it.
function startOf(service: Service): Signal<Draft> {
  const draft = draftFor(service);
  if (query.value.get("from") === "example" && service.example) {
    draft.value = fresh(service, service.example);
    setQuery({ from: "" });
  }
  return draft;
}
