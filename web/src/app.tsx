// The frame of all views: navigation, sign-in, and the view of the route.
import { Component, type ComponentChildren, type ComponentType } from "preact";
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { settings, signIn, signInAddress } from "./api/session";
import { Failure, Loading, Notice } from "./controls";
import picture from "./front.svg";
import { segments, to } from "./route";
import { texts } from "./texts";
import { Account } from "./views/account";
import { Platforms } from "./views/platform_list";
import { Services } from "./views/services";
import { ServicePage } from "./views/service";
import { Jobs, Tasks } from "./views/lists";

// later loads a view with a map when it is first shown.
function later<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  return function Later(props: P) {
    const view = useSignal<{ is: ComponentType<P> } | null>(null);
    const error = useSignal<unknown>(null);
    const attempt = useSignal(0);
    useEffect(() => {
      load()
        .then(is => (view.value = { is }))
        .catch((e: unknown) => (error.value = e));
    }, [attempt.value]);
    if (error.value !== null)
      return (
        <div class="page">
          <Failure error={error.value} again={() => location.reload()} />
        </div>
      );
    const View = view.value?.is;
    return View ? (
      <View {...props} />
    ) : (
      <div class="page">
        <Loading />
      </div>
    );
  };
}

const NewRun = later(async () => (await import("./views/run")).NewRun);
const TaskPage = later(async () => (await import("./views/task")).TaskPage);
const JobPage = later(async () => (await import("./views/job")).JobPage);

export function App() {
  const now = signIn.value;
  return (
    <>
      <a
        class="skip"
        href="#content"
        onClick={e => {
          e.preventDefault();
          document.getElementById("content")?.focus();
        }}
      >
        {texts.skip}
      </a>
      <Header />
      {now.state === "out" && now.ended && (
        <div class="ended" role="alert">
          <Notice
            kind="warning"
            action={
              <a class="button primary" href={signInAddress()}>
                {texts.signIn.button}
              </a>
            }
          >
            <p>{texts.signIn.ended}</p>
          </Notice>
        </div>
      )}
      <main id="content" tabIndex={-1}>
        <Boundary key={segments.value.join("/")}>
          <View />
        </Boundary>
      </main>
    </>
  );
}

function Header() {
  const [view] = segments.value;
  const now = signIn.value;
  const s = settings.value;
  const current = (name: string) =>
    view === name || (name === "services" && (view === undefined || view === "new")) ? "page" : undefined;
  return (
    <header>
      <a class="brand" href={to(["services"])}>
        {s.title}
      </a>
      <nav aria-label={texts.nav.label}>
        {(["services", "tasks", "jobs", "platforms"] as const).map(name => (
          <a key={name} href={to([name])} aria-current={current(name)}>
            {texts.nav[name]}
          </a>
        ))}
      </nav>
      <div class="me">
        {now.state === "in" && (
          <a href={to(["account"])} aria-current={current("account")} data-user={now.session.user.id}>
            {now.session.user.name || now.session.user.email || texts.nav.account}
          </a>
        )}
        {now.state === "out" && s.sign_in && (
          <a class="button primary" href={signInAddress()}>
            {texts.signIn.button}
          </a>
        )}
      </div>
    </header>
  );
}

function View() {
  const [view, id] = segments.value;
  const now = signIn.value;
  const open = view === undefined || view === "services" || view === "new";
  if (now.state === "unknown")
    return (
      <div class="page">
        <Loading />
      </div>
    );
  if (now.state === "out" && !now.ended && (!open || settings.value.signed_in_needed)) return <SignIn />;
  switch (view) {
    case undefined:
      return <Services />;
    case "services":
      return id ? <ServicePage id={id} /> : <Services />;
    case "new":
      return id ? <NewRun id={id} /> : <Services />;
    case "tasks":
      if (id && !isNumber(id)) break;
      return id ? <TaskPage id={Number(id)} /> : <Tasks />;
    case "jobs":
      if (id && !isNumber(id)) break;
      return id ? <JobPage id={Number(id)} /> : <Jobs />;
    case "platforms":
      return <Platforms />;
    case "account":
      return <Account />;
  }
  return (
    <div class="page">
      <Notice kind="info" text={texts.errors.notFound} />
    </div>
  );
}

const isNumber = (text: string): boolean => /^\d{1,15}$/.test(text);

// SignIn is the first that somebody sees who is not signed in: what the service is for, and how a run goes.
function SignIn() {
  const w = texts.welcome;
  return (
    <div class="page welcome" data-view="sign-in" data-state="ready">
      <div class="front">
        <div>
          <h1>{settings.value.title}</h1>
          <p class="lead">{texts.services.lead}</p>
          {settings.value.sign_in ? (
            <>
              <p class="soft">{texts.signIn.why}</p>
              <p>
                <a class="button primary" href={signInAddress()}>
                  {texts.signIn.button}
                </a>
              </p>
            </>
          ) : (
            <Notice kind="info" text={texts.signIn.none} />
          )}
        </div>
        <img src={picture} alt={w.picture} width="480" height="320" />
      </div>
      <ol class="steps">
        {w.steps.map(([title, text]) => (
          <li key={title} class="card">
            <h2>{title}</h2>
            <p class="soft">{text}</p>
          </li>
        ))}
      </ol>
      <Footer />
    </div>
  );
}

function Footer() {
  return (
    <p class="soft small">
      <a href="docs">{texts.nav.interface}</a> · <a href="page/notices.txt">{texts.nav.notices}</a> ·{" "}
      {texts.map.outlines} · {settings.value.version}
    </p>
  );
}

// Boundary shows a fault of a view in its place.
class Boundary extends Component<{ children: ComponentChildren }, { error: unknown }> {
  override state = { error: null as unknown };

  static override getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    if (this.state.error !== null) {
      return (
        <div class="page">
          <Notice
            kind="error"
            action={
              <button type="button" onClick={() => location.reload()}>
                {texts.tryAgain}
              </button>
            }
          >
            <p>{texts.errors.crashed}</p>
          </Notice>
        </div>
      );
    }
    return <>{this.props.children}</>;
  }
}
