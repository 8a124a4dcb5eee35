// What is known of a job: its course, and its parameters.
import type { ComponentChildren } from "preact";
import type { Job } from "../api/wire";
import { Facts } from "../controls";
import { label } from "../form/parameters";
import { Shown } from "../form/shown";
import { between, duration, rounded, since, time } from "../format";
import { texts } from "../texts";

const t = texts.job;

export function Course({ job: j }: { job: Job }) {
  const at = (text?: string) =>
    text && (
      <span title={text}>
        {time(text)} <span class="soft small">({since(text)})</span>
      </span>
    );
  const rows: [string, ComponentChildren][] = [
    [t.created, at(j.created)],
    [t.queue, j.queue_position !== undefined && texts.task.queue(j.queue_position)],
    [t.starts, j.forecast?.start && between(j.forecast.start.early, j.forecast.start.late)],
    [
      t.ends,
      j.forecast && t.expected(between(j.forecast.end.early, j.forecast.end.late), j.forecast.runs, j.forecast.basis),
    ],
    [t.checked, at(j.checked)],
    [t.started, at(j.started)],
    [t.ended, at(j.ended)],
    [t.updated, at(j.updated)],
    [t.duration, j.duration && duration(j.duration)],
    [t.costs, j.costs !== undefined && `${rounded(j.costs)} ${j.cost_unit ?? ""}`],
    [t.platform, j.platform],
    [t.platformJob, j.platform_job_id && <code>{j.platform_job_id}</code>],
  ];
  return <Facts rows={rows} />;
}

export function Parameters({ parameters }: { parameters: Record<string, unknown> }) {
  return (
    <dl class="facts">
      {Object.entries(parameters).map(([name, value]) => (
        <div key={name} data-parameter={name}>
          <dt>{label(name)}</dt>
          <dd>
            <Shown value={value} />
          </dd>
        </div>
      ))}
    </dl>
  );
}
