// The same request for other tools.
import { useSignal } from "@preact/signals";
import { address } from "../api/client";
import type { JobRequest, Service, TaskRequest } from "../api/wire";
import { Copy, save } from "../controls";
import type { Draft } from "../form/draft";
import { asCommand, asCurl, asPython } from "../form/request";
import { texts } from "../texts";

const t = texts.run;

export function Elsewhere({
  service,
  draft,
  request,
}: {
  service: Service;
  draft: Draft;
  request: JobRequest | TaskRequest;
}) {
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
