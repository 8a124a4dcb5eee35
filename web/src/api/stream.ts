// WebSockets of the broker: a first whole message, then changes. They connect again after a cut.
import { address } from "./client";
import { loadSession, signIn } from "./session";
import type { Changes } from "./wire";

export interface Listener<T> {
  whole(data: T): void;
  changes(data: Changes): void;
  // connected reports whether what is shown is live.
  connected(live: boolean): void;
  // refused is called when a connection has ended before the first message: the object may be missing.
  refused?(): void;
  // gone is called when the object was deleted.
  gone?(): void;
}

type Message<T> =
  | { type: "init" | "loading"; message: string | null }
  | { type: "error"; message: string; error_code: string }
  | { type: "status"; data: T }
  | { type: "changes"; data: Changes };

const longestPause = 30_000; // ms between two attempts

// open follows a topic until the returned function is called. Each connection begins with the whole state, so no change
// is missed.
export function open<T>(path: string, listener: Listener<T>): () => void {
  let socket: WebSocket | undefined;
  let timer: number | undefined;
  let attempts = 0;
  let closed = false;

  const connect = () => {
    const at = address(path);
    at.protocol = at.protocol === "https:" ? "wss:" : "ws:";
    socket = new WebSocket(at);
    let answered = false;
    let deleted = false;
    socket.onmessage = (event: MessageEvent<string>) => {
      answered = true;
      const message = JSON.parse(event.data) as Message<T>;
      if (message.type === "status") {
        attempts = 0;
        listener.connected(true);
        listener.whole(message.data);
      }
      if (message.type === "changes") listener.changes(message.data);
      if (message.type === "error") deleted = message.error_code === "TASK_NOT_FOUND";
    };
    socket.onclose = () => {
      if (closed) return;
      listener.connected(false);
      if (deleted && listener.gone) {
        listener.gone();
        return;
      }
      if (!answered) listener.refused?.();
      // A refused upgrade has no status here; asking for the session tells whether it has ended.
      void loadSession()
        .catch(() => undefined)
        .then(again);
    };
  };
  const again = () => {
    if (closed) return;
    if (signIn.value.state === "out") {
      const stop = signIn.subscribe(now => {
        if (now.state === "in")
          queueMicrotask(() => {
            stop();
            again();
          });
      });
      return;
    }
    const pause = Math.min(longestPause, 500 * 2 ** attempts++);
    timer = window.setTimeout(connect, pause / 2 + Math.random() * (pause / 2));
  };
  connect();
  return () => {
    closed = true;
    clearTimeout(timer);
    socket?.close();
  };
}
