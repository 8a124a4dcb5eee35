// The platforms: whether they respond, how many jobs wait for them, and how the user's jobs run there.
import { address, get } from "../api/client";
import { useResource } from "../api/resource";
import { comingBack, settings, signIn } from "../api/session";
import type { Platform, PlatformList } from "../api/wire";
import { AttentionNotice, Failure, Loading, Outward, useTitle } from "../controls";
import { since } from "../format";
import { texts } from "../texts";

const t = texts.account;
const again = 10_000; // ms between two reads

export function Platforms() {
  useTitle(t.platforms);
  const list = useResource(abort => get<PlatformList>("platforms", abort), [signIn.value.state], again);
  return (
    <div class="page narrow" data-view="platforms" data-state={list.value ? "ready" : "loading"}>
      <h1>{t.platforms}</h1>
      {list.error !== null && <Failure error={list.error} again={list.again} />}
      {!list.value && list.error === null && <Loading />}
      {list.value?.platforms.map(p => (
        <PlatformCard key={p.name} platform={p} />
      ))}
      {list.value && settings.value.account && (
        <p class="soft small">
          {t.unlinkHelp} <Outward href={settings.value.account}>{t.manage}</Outward>
        </p>
      )}
    </div>
  );
}

function PlatformCard({ platform: p }: { platform: Platform }) {
  return (
    <section class="card" data-platform-state={p.state} data-platform={p.name}>
      <div class="row between">
        <h2>{p.name}</h2>
        <span class={p.state === "ok" ? "good" : p.state === "unknown" ? "soft" : "warn"}>{texts.state[p.state]}</span>
      </div>
      <p class="soft small">
        {texts.service.protocols[p.label]} · {p.endpoint}
      </p>
      <p class="small">
        {p.last_answer ? t.lastAnswer(since(p.last_answer)) : t.noAnswer} {t.queue(p.queue_length)}
      </p>
      <p class="small">
        {t.access[p.access]} {t.waiting(p.jobs.waiting, p.jobs.active)}{" "}
        {p.slots.of !== null && t.slots(p.slots.used, p.slots.of)}
      </p>
      {p.attention ? <AttentionNotice attention={p.attention} /> : null}
      {p.failure && <p class="small warn">{t.failure(p.failure)}</p>}
      {p.access === "user" && !p.attention?.link && (
        <div>
          <a class="button" href={comingBack(address(`link/${encodeURIComponent(p.name)}`).href)}>
            {p.state === "ok" ? t.linkAgain : t.link}
          </a>
        </div>
      )}
    </section>
  );
}
