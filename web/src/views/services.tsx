import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { get } from "../api/client";
import { signIn } from "../api/session";
import { platformsOf, type ServiceList, type ServiceSummary } from "../api/wire";
import { Failure, Loading, Notice, safe, Table, useTitle } from "../controls";
import { count, since } from "../format";
import { hash, query, segments, setQuery, to } from "../route";
import { texts } from "../texts";

const t = texts.services;

export function Services() {
  useTitle(t.title);
  const list = useSignal<ServiceList | null>(null);
  const error = useSignal<unknown>(null);
  const total = useSignal(0);
  const filters = new URLSearchParams(
    [...query.value].filter(([name]) => ["q", "platform", "keyword"].includes(name)),
  ).toString();
  const attempt = useSignal(0);
  const user = signIn.value.state;
  useEffect(() => {
    const abort = new AbortController();
    get<ServiceList>(`services?limit=100&${filters}`, abort.signal)
      .then(found => {
        list.value = found;
        error.value = null;
        if (filters === "") total.value = found.total;
      })
      .catch((e: unknown) => {
        if (!abort.signal.aborted) error.value = e;
      });
    return () => abort.abort();
  }, [filters, attempt.value, user]);
  const more = async () => {
    const before = list.value!;
    const page = await get<ServiceList>(`services?limit=100&${filters}&cursor=${encodeURIComponent(before.next!)}`);
    if (list.value !== before) return; // other filters, or the same page was asked for twice
    const { next: _, ...shown } = before;
    list.value = {
      ...shown,
      ...(page.next ? { next: page.next } : {}),
      services: [...shown.services, ...page.services],
    };
  };
  const shown = list.value;
  const asList = query.value.get("view") === "list";
  return (
    <div class="page" data-view="services" data-state={shown ? "ready" : "loading"}>
      <h1>{t.title}</h1>
      <p class="lead soft">{t.lead}</p>
      <Filters list={shown} total={total.value} />
      {error.value !== null && <Failure error={error.value} again={() => attempt.value++} />}
      {!shown && error.value === null && <Loading />}
      {shown && (
        <>
          <p class="soft" role="status">
            {filters === "" ? null : t.found(shown.total)}
          </p>
          {shown.total === 0 && <Notice kind="info" text={filters === "" ? t.empty : t.none} />}
          {asList ? <ServiceTable services={shown.services} /> : <Cards services={shown.services} />}
          {shown.next && (
            <button type="button" onClick={() => void more().catch((e: unknown) => (error.value = e))}>
              {texts.more}
            </button>
          )}
        </>
      )}
    </div>
  );
}

const path = () => segments.value.join("/");

function Filters({ list, total }: { list: ServiceList | null; total: number }) {
  const timer = useRef<number | undefined>(undefined);
  const search = (text: string) => {
    clearTimeout(timer.current);
    const view = path();
    timer.current = window.setTimeout(() => {
      if (path() === view && location.hash === hash.value) setQuery({ q: text }); // else another view is to be drawn
    }, 150);
  };
  const asList = query.value.get("view") === "list";
  return (
    <div class="filters" role="search">
      <input
        type="search"
        class="grow"
        aria-label={texts.search}
        placeholder={total > 0 ? t.search(total) : texts.search}
        defaultValue={query.value.get("q") ?? ""}
        onInput={e => search(e.currentTarget.value)}
      />
      <select
        aria-label={t.platform}
        value={query.value.get("platform") ?? ""}
        onChange={e => setQuery({ platform: e.currentTarget.value })}
      >
        <option value="">{t.allPlatforms}</option>
        {list?.platforms.map(p => (
          <option key={p.id} value={p.id}>
            {p.title} ({p.services})
          </option>
        ))}
      </select>
      <select
        aria-label={t.keyword}
        value={query.value.get("keyword") ?? ""}
        onChange={e => setQuery({ keyword: e.currentTarget.value })}
      >
        <option value="">{t.allKeywords}</option>
        {list?.keywords.map(k => (
          <option key={k.keyword} value={k.keyword}>
            {k.keyword} ({k.services})
          </option>
        ))}
      </select>
      <div class="segments" role="group" aria-label={t.view}>
        <button type="button" aria-pressed={!asList} onClick={() => setQuery({ view: "" })}>
          {t.cards}
        </button>
        <button type="button" aria-pressed={asList} onClick={() => setQuery({ view: "list" })}>
          {t.list}
        </button>
      </div>
    </div>
  );
}

export function Origin({ service: s }: { service: ServiceSummary }) {
  return (
    <>
      {s.provider?.name ? t.by(s.provider.name, platformsOf(s).join(", ")) : t.on(platformsOf(s).join(", "))}
      {s.platform_state && s.platform_state !== "ok" && s.platform_state !== "unknown" && (
        <span class="warn"> · {texts.state[s.platform_state]}</span>
      )}
    </>
  );
}

function Cards({ services }: { services: ServiceSummary[] }) {
  return (
    <ul class="cards">
      {services.map(s => (
        <li class="card" key={s.id}>
          {s.thumbnail && safe(s.thumbnail) && (
            <img class="thumbnail" src={safe(s.thumbnail)} alt="" loading="lazy" referrerpolicy="no-referrer" />
          )}
          <h2>
            <a href={to(["services", s.id])}>{s.title}</a>
          </h2>
          <p class="soft small">
            <Origin service={s} />
          </p>
          {s.summary && <p class="summary">{s.summary}</p>}
          {s.keywords && s.keywords.length > 0 && (
            <p class="tags">
              {s.keywords.slice(0, 5).map(k => (
                <span key={k}>{k}</span>
              ))}
            </p>
          )}
          <div class="row foot">
            <a class="button primary" href={to(["new", s.id])}>
              {t.run}
              <span class="visually-hidden"> {s.title}</span>
            </a>
            <a class="button quiet" href={to(["services", s.id])}>
              {texts.details}
              <span class="visually-hidden"> {s.title}</span>
            </a>
            {s.stale_since && <span class="soft small">{t.stale(since(s.stale_since))}</span>}
          </div>
        </li>
      ))}
    </ul>
  );
}

function ServiceTable({ services }: { services: ServiceSummary[] }) {
  return (
    <Table
      label={t.title}
      caption={count(services.length, "service", "services")}
      columns={[texts.lists.name, texts.service.provider, t.platform, texts.service.meaning]}
    >
      {services.map(s => (
        <tr key={s.id}>
          <th scope="row">
            <a href={to(["services", s.id])}>{s.title}</a>
          </th>
          <td>{s.provider?.name}</td>
          <td>{platformsOf(s).join(", ")}</td>
          <td>{s.summary}</td>
        </tr>
      ))}
    </Table>
  );
}
