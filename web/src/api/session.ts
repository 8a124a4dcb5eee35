// Who uses the page. The session is a cookie that scripts cannot read; the page knows only whether there is one.
import { signal } from "@preact/signals";
import { hash } from "../route";
import { address, get, onUnauthorized, post, Refused } from "./client";
import type { Session, Settings } from "./wire";

export type SignIn =
  | { state: "unknown" }
  | { state: "out"; ended: boolean } // ended: there was a session when the page was opened
  | { state: "in"; session: Session };

export const signIn = signal<SignIn>({ state: "unknown" });
export const settings = signal<Settings>({
  title: "eodispatch",
  version: "",
  sign_in: true,
  signed_in_needed: true,
  account: "",
  mail: false,
  base_map: null,
  limits: {},
});

let userBefore: string | null = null;

// loadSession asks the broker who is signed in.
export async function loadSession(): Promise<void> {
  try {
    const session = await get<Session>("session");
    if (userBefore !== null && userBefore !== session.user.id) {
      // what the page holds is another user's
      sessionStorage.clear();
      location.reload();
      return;
    }
    userBefore = session.user.id;
    signIn.value = { state: "in", session };
    announce("in");
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 401) throw error;
    sessionEnded();
  }
}

// sessionEnded notes that the broker knows no session of this browser. What the page shows stays.
function sessionEnded(): void {
  if (signIn.value.state !== "out") signIn.value = { state: "out", ended: userBefore !== null };
}

onUnauthorized(sessionEnded);

// signInAddress is where to sign in. The provider sends the browser back to what the page shows.
export const signInAddress = (): string => comingBack(address("session/sign-in").href);

// comingBack returns an address at which the broker does something for its user, and then leads back to what the page
// shows. Addresses of others stay as they are.
export function comingBack(link: string): string {
  const at = new URL(document.baseURI);
  const to = new URL(link, at);
  if (to.href.startsWith(address("").href)) to.searchParams.set("return", at.pathname + hash.value);
  return to.href;
}

// signOut ends the session in all tabs and goes to the page where the provider ends its own.
export async function signOut(): Promise<void> {
  const { location: end } = await post<{ location: string }>("session/sign-out");
  announce("out");
  sessionStorage.clear(); // what was typed is this user's
  // the way back must not show what this user saw
  window.addEventListener("pageshow", () => location.reload());
  location.assign(end);
}

const tabs = new BroadcastChannel("eodispatch-session");

function announce(state: "in" | "out"): void {
  tabs.postMessage(state);
}

// Other tabs follow: one that waits for a sign-in goes on, one that shows what was this user's begins anew.
tabs.onmessage = (message: MessageEvent<"in" | "out">) => {
  if (message.data === "out") {
    sessionStorage.clear(); // each tab has its own
    location.reload();
  }
  if (message.data === "in" && signIn.value.state === "out") void loadSession().catch(() => undefined);
};

// A page that was left open asks again when somebody returns to it.
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible" && signIn.value.state === "in") void loadSession().catch(() => undefined);
});
