import { address, get } from "../api/client";
import { useResource } from "../api/resource";
import { signIn } from "../api/session";
import { platformsOf, type Parameter, type Service } from "../api/wire";
import { Copy, Facts, Failure, Loading, Notice, Outward, Table, useTitle } from "../controls";
import { date, rounded, since } from "../format";
import { go, to } from "../route";
import { texts } from "../texts";
import { Origin } from "./services";

const t = texts.service;

// useService reads a service. It asks again when somebody has signed in.
export function useService(id: string) {
  const path = `services/${encodeURIComponent(id)}`;
  const { value, error, again } = useResource(abort => get<Service>(path, abort), [id, signIn.value.state]);
  return { service: value?.id === id ? value : null, error, again };
}

export function ServicePage({ id }: { id: string }) {
  const { service: s, error, again } = useService(id);
  useTitle(s?.title ?? texts.services.title);
  if (!s) return <div class="page">{error ? <Failure error={error} again={again} /> : <Loading />}</div>;
  const example = s.example;
  return (
    <div class="page narrow" data-view="service" data-state="ready">
      <p>
        <a href={to(["services"])}>← {texts.services.title}</a>
      </p>
      <h1>{s.title}</h1>
      <p class="soft">
        <Origin service={s} />
      </p>
      <div class="row">
        <a class="button primary" href={to(["new", s.id])}>
          {t.run}
        </a>
        {example && (
          <button type="button" onClick={() => go(to(["new", s.id], { from: "example" }))}>
            {t.fromExample}
          </button>
        )}
      </div>
      {s.stale_since && <Notice kind="warning" text={texts.services.stale(since(s.stale_since))} />}
      {s.description_html ? (
        // The broker has sanitised it; the Content-Security-Policy lets no script in it run.
        <div class="prose" dangerouslySetInnerHTML={{ __html: s.description_html }} />
      ) : (
        <p>{s.description ?? s.summary}</p>
      )}
      <About service={s} />
      <h2>{t.parameters}</h2>
      {s.parameters ? (
        <Parameters parameters={s.parameters} />
      ) : (
        <Notice kind="warning" text={s.parameters_error?.message ?? t.noParameters} />
      )}
      <h2>{t.use}</h2>
      <Snippet
        label="Python"
        text={
          `import eodispatch\n\nc = eodispatch.connect(${JSON.stringify(address("").href)})\n` +
          `service = c.service(${JSON.stringify(s.id)})`
        }
      />
      <Snippet label={t.commandLine} text={`eodispatch service ${s.id}\neodispatch run ${s.id} --help`} />
      {s.links && s.links.length > 0 && (
        <>
          <h2>{t.links}</h2>
          <ul>
            {s.links.map(l => (
              <li key={l.rel + l.href}>
                <Outward href={l.href}>{l.title || l.href}</Outward> <span class="soft small">{l.rel}</span>
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}

function Snippet({ label, text }: { label: string; text: string }) {
  return (
    <section>
      <div class="row between">
        <h3>{label}</h3>
        <Copy text={text} />
      </div>
      <pre tabIndex={0}>{text}</pre>
    </section>
  );
}

// costOf returns the cost of a service as its provider gives it.
export function costOf(s: Service): string | null {
  const parts = [
    s.cost?.estimate != null ? t.costOf(rounded(s.cost.estimate), s.cost.unit ?? "") : "",
    s.cost?.note ?? "",
  ];
  return parts.filter(Boolean).join(". ") || null;
}

function About({ service: s }: { service: Service }) {
  const rows: [string, preact.ComponentChildren][] = [
    [t.platform, platformsOf(s).join(", ")],
    [t.protocol, t.protocols[s.label]],
    [
      t.provider,
      s.provider && (s.provider.url ? <Outward href={s.provider.url}>{s.provider.name}</Outward> : s.provider.name),
    ],
    [t.licence, s.licence],
    [t.cost, costOf(s)],
    [t.formats, s.formats?.map(f => f.title || f.name).join(", ")],
    [t.updated, s.updated && date(s.updated)],
  ];
  return <Facts rows={rows} />;
}

function Parameters({ parameters }: { parameters: Parameter[] }) {
  return (
    <Table label={t.parameters} columns={[t.name, t.type, t.default, t.meaning]}>
      {parameters.map(p => (
        <tr key={p.name}>
          <th scope="row">
            <code>{p.name}</code>
          </th>
          <td>{p.type}</td>
          <td>{p.optional ? (p.default === null ? "" : JSON.stringify(p.default)) : t.required}</td>
          <td>{p.description}</td>
        </tr>
      ))}
    </Table>
  );
}
