import { render } from "preact";
import { get } from "./api/client";
import { loadSession, settings } from "./api/session";
import type { Settings } from "./api/wire";
import { App } from "./app";
import { Failure } from "./controls";
import "./style.css";

const root = document.getElementById("page")!;

// start shows the page when it is known who uses it, so that nothing flickers.
async function start(): Promise<void> {
  try {
    const [found] = await Promise.all([get<Settings>("page/settings.json"), loadSession()]);
    settings.value = found;
    document.title = found.title;
    render(<App />, root);
  } catch (error) {
    render(
      <main class="page">
        <Failure error={error} again={() => void start()} />
      </main>,
      root,
    );
  }
}

root.textContent = "";
void start();
