// The platforms of a task that runs at several: how many of its jobs are where, and how fast each platform is.
import { get } from "../api/client";
import type { LiveTask } from "../api/live";
import { useResource } from "../api/resource";
import { comingBack } from "../api/session";
import type { PlatformProgress } from "../api/wire";
import { ProgressBar } from "../controls";
import { since } from "../format";
import { totals, type Counts } from "../status";
import { texts } from "../texts";

const t = texts.platforms;
const again = 10_000; // ms between two reads of the rates, while jobs end

// TaskPlatforms shows the platforms of a task with several. The counts follow the jobs; the rates are read now and
// then.
export function TaskPlatforms({ id, task, live }: { id: number; task: LiveTask; live: boolean }) {
  const path = `upscale_tasks/${id}/platforms`;
  const { value } = useResource(
    abort => get<{ platforms: PlatformProgress[] }>(path, abort),
    [id, live],
    live ? again : undefined,
  );
  const read = value?.platforms ?? [];
  if (read.length < 2) return null;
  const counts = new Map<string, Counts>();
  for (const j of task.jobs.value.values()) {
    if (!j.platform) continue;
    const own = counts.get(j.platform) ?? {};
    own[j.status] = (own[j.status] ?? 0) + 1;
    counts.set(j.platform, own);
  }
  return (
    <section data-platforms={read.length}>
      <h2>{t.title}</h2>
      <ul class="values">
        {read.map(p => {
          const own = counts.get(p.platform) ?? {};
          const { all, done } = totals(own);
          return (
            <li key={p.platform} data-platform={p.platform} data-done={done} data-all={all} data-per-hour={p.per_hour}>
              <div class="row between">
                <span>{p.platform}</span>
                <span class="soft small num">
                  {texts.several.done(done, all, own.failed ?? 0)}
                  {p.per_hour > 0 && <> · {t.rate(p.per_hour)}</>}
                </span>
              </div>
              <ProgressBar counts={own} label={`${p.platform}: ${texts.several.done(done, all, own.failed ?? 0)}`} />
              {p.unused && (
                <p class="small warn">
                  {t.unused} {p.unused}
                </p>
              )}
              {p.state === "unreachable" && (
                <p class="small warn" data-down={p.platform}>
                  {t.unreachable(p.last_answer ? since(p.last_answer) : null)} {p.failure}
                </p>
              )}
              {p.state !== "unreachable" && p.attention && <p class="small warn">{p.attention.message}</p>}
              {p.notice && (
                <p class="small warn">
                  {p.notice}{" "}
                  {p.link && (
                    <a href={comingBack(p.link)}>
                      {t.resolve}
                      <span class="visually-hidden"> {p.platform}</span>
                    </a>
                  )}
                </p>
              )}
            </li>
          );
        })}
      </ul>
    </section>
  );
}
