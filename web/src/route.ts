// Routes are in the fragment of the address: /#/tasks/7?status=failed
import { computed, signal } from "@preact/signals";

export const hash = signal(location.hash);
window.addEventListener("hashchange", () => (hash.value = location.hash));

const parts = computed(() => {
  const [path = "", query = ""] = hash.value.replace(/^#\/?/, "").split("?", 2);
  return { segments: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
});

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const segments = computed(() => parts.value.segments);
export const query = computed(() => parts.value.query);

// to returns the address of a view.
export function to(path: string[], parameters: Record<string, string> = {}): string {
  const text = new URLSearchParams(parameters).toString();
  return "#/" + path.map(encodeURIComponent).join("/") + (text ? "?" + text : "");
}

export function go(address: string): void {
  location.hash = address;
}

// setQuery changes parameters of the view's address without an entry in the history. An empty value removes one.
export function setQuery(changes: Record<string, string | string[]>): void {
  const next = new URLSearchParams(query.value);
  for (const [name, value] of Object.entries(changes)) {
    next.delete(name);
    for (const one of Array.isArray(value) ? value : [value]) if (one !== "") next.append(name, one);
  }
  const text = next.toString();
  history.replaceState(
    history.state,
    "",
    "#/" + segments.value.map(encodeURIComponent).join("/") + (text ? "?" + text : ""),
  );
  hash.value = location.hash;
}
