// The list of what is wrong with a form, in the order of its fields, to which it leads.
import type { Service } from "../api/wire";
import { Notice } from "../controls";
import { areaOf, label } from "../form/parameters";
import type { Faults } from "../form/request";
import { texts } from "../texts";

export function FaultSummary({
  service,
  faults,
  general,
  focus,
}: {
  service: Service;
  faults: Faults;
  general: string[];
  focus: { current: HTMLDivElement | null };
}) {
  const words: Record<string, string> = {
    ":area": texts.form.area,
    ":format": texts.form.format,
    ":several": texts.split.title,
    ":limits": texts.limits.title,
  };
  const area = areaOf(service.parameters ?? [])?.name;
  const own = (service.parameters ?? []).map(p => p.name).filter(n => n !== area);
  const order = [":title", ":area", ...own, ":format", ":several", ":limits"];
  const names = Object.keys(faults).sort((a, b) => order.indexOf(a) - order.indexOf(b));
  if (names.length + general.length === 0) return null;
  return (
    <div ref={focus} tabIndex={-1}>
      <Notice kind="error" title={texts.form.faults(names.length + general.length)}>
        <ul>
          {names.map(n => (
            <li key={n}>
              <a
                href={location.hash}
                onClick={e => {
                  e.preventDefault();
                  leadTo(n);
                }}
              >
                {words[n] ?? label(n)}
              </a>
              : {faults[n]}
            </li>
          ))}
          {general.map(g => (
            <li key={g}>{g}</li>
          ))}
        </ul>
      </Notice>
    </div>
  );
}

// leadTo moves the focus to a field of the form.
function leadTo(name: string): void {
  const field = document.querySelector(`[data-field="${CSS.escape(name)}"]`);
  if (field instanceof HTMLDetailsElement) field.open = true;
  field?.querySelector<HTMLElement>("input, select, textarea")?.focus();
}
