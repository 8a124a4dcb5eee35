import { useSignal } from "@preact/signals";
import { get, post, Refused, remove } from "../api/client";
import { useResource } from "../api/resource";
import { comingBack, settings, signIn, signOut } from "../api/session";
import type { Grant, PlatformList, Usage } from "../api/wire";
import { Act, Confirm, Failure, Loading, Table, useTitle } from "../controls";
import { rounded, since } from "../format";
import { texts } from "../texts";
import { Hooks } from "./hooks";

const t = texts.account;

export function Account() {
  useTitle(t.title);
  const now = signIn.value;
  const read = async (abort: AbortSignal) => {
    const [platforms, usage, grants] = await Promise.all([
      get<PlatformList>("platforms", abort),
      get<Usage[]>("usage", abort),
      get<Grant[]>("grants", abort),
    ]);
    return { platforms, usage, grants };
  };
  const { value, error, again } = useResource(read, [now.state]);
  return (
    <div class="page narrow" data-view="account" data-state={value ? "ready" : "loading"}>
      <h1>{t.title}</h1>
      {now.state === "in" && (
        <section class="box">
          <p>
            {texts.signIn.as(now.session.user.name || now.session.user.email || now.session.user.id)}
            {now.session.user.email && now.session.user.name ? (
              <span class="soft"> · {now.session.user.email}</span>
            ) : null}
          </p>
          <div class="row">
            <Act label={texts.signIn.out} act={signOut} />
          </div>
          <p class="soft small">{texts.signIn.outOf}</p>
        </section>
      )}
      {error !== null && <Failure error={error} again={again} />}
      {!value && error === null && <Loading />}
      {value && (
        <>
          <h2>{t.permissions}</h2>
          <Permissions grants={value.grants} again={again} />
          <h2>{texts.hooks.title}</h2>
          <Hooks email={now.state === "in" && settings.value.mail ? (now.session.user.email ?? "") : ""} />
          <h2>{t.usage}</h2>
          <UsageTable list={value.platforms} usage={value.usage} />
        </>
      )}
    </div>
  );
}

function Permissions({ grants, again }: { grants: Grant[]; again: () => void }) {
  const unsupported = useSignal("");
  const give = async () => {
    try {
      const { link } = await post<{ link: string }>("grants");
      location.assign(comingBack(link));
    } catch (e) {
      if (!(e instanceof Refused && e.status === 501)) throw e;
      unsupported.value = e.message;
    }
  };
  return (
    <>
      <p class="soft">{t.permissionsLead}</p>
      {grants.length === 0 ? (
        <p>{t.noPermissions}</p>
      ) : (
        <ul class="files">
          {grants.map(g => (
            <li key={g.id}>
              <div class="grow">
                {g.platforms.join(", ")}{" "}
                <span class="soft small">
                  {t.kinds[g.kind]}, {t.used(since(g.renewed))}
                  {g.expires && `, ${t.expires(since(g.expires))}`}
                </span>
              </div>
              <Confirm
                label={t.takeBack}
                question={t.takeBackQuestion}
                confirm={t.takeBack}
                danger
                act={async () => {
                  await remove(`grants/${encodeURIComponent(g.id)}`);
                  again();
                }}
              />
            </li>
          ))}
        </ul>
      )}
      {unsupported.value ? (
        <p class="soft">{unsupported.value}</p>
      ) : (
        <div class="row">
          <Act label={t.give} act={give} />
        </div>
      )}
    </>
  );
}

// costsOf returns the costs of a user's jobs with their unit, if the platform always charged in the same one.
function costsOf(u: Usage): string {
  if (u.costs === null) return "";
  const [unit, ...others] = new Set(u.charges.map(c => c.unit));
  return `${rounded(u.costs)} ${others.length === 0 && unit ? unit : ""}`.trim();
}

function UsageTable({ list, usage }: { list: PlatformList; usage: Usage[] }) {
  return (
    <Table label={t.usage} columns={[t.platform, t.live, t.lastDay, t.stored, t.costs]}>
      {usage.map(u => (
        <tr key={u.platform}>
          <th scope="row">{u.platform}</th>
          <td class="num">{t.of(u.live, u.live_limit)}</td>
          <td class="num">{t.of(u.last_day, u.last_day_limit)}</td>
          <td class="num">{u.jobs}</td>
          <td class="num">{costsOf(u)}</td>
        </tr>
      ))}
      <tr>
        <th scope="row">{t.overall}</th>
        <td class="num">{t.of(list.live.used, list.live.of)}</td>
        <td class="num">{t.of(list.last_day.used, list.last_day.of)}</td>
        <td />
        <td />
      </tr>
    </Table>
  );
}
