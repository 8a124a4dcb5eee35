// What a request meets at a platform.
import type { Platform, PlatformList } from "../api/wire";
import { AttentionNotice, Notice } from "../controls";
import { texts } from "../texts";

const t = texts.run;

// Limits shows what a request meets at a platform. If it is not alone, other platforms can run what this one cannot.
export function Limits({
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
      {troubled && !p.attention && <Notice kind="warning" text={t.notWorking(texts.state[p.state])} />}
      {over && <Notice kind="error" text={t.overLimit} />}
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
