// Every text of the page, so that it can be translated in one place.
import type { Label, PlatformState, Status, Step } from "./api/wire";
import { count, number, rounded } from "./format";

const jobs = (n: number) => count(n, "job", "jobs");
const tiles = (n: number) => count(n, "tile", "tiles");

// named names up to three entries.
const named = (titles: string[]): string =>
  titles
    .slice(0, 3)
    .map(title => `“${title}”`)
    .join(", ") + (titles.length > 3 ? ` and ${count(titles.length - 3, "other", "others")}` : "");

// basedOn says what an estimate is made from.
const bases: Record<string, string> = { task: "of this task", area: "over areas of this size" };
const basedOn = (runs: number, basis: string) =>
  `${count(runs, "finished job", "finished jobs")} ${bases[basis] ?? "of the service"}`;

// losses says what is lost when jobs are deleted.
function losses(all: number, finished: number, alive: number): string {
  const results = finished > 0 ? `, and the results of ${number(finished)} that finished` : "";
  const stopped =
    alive > 0 ? ` ${count(alive, "unfinished job is", "unfinished jobs are")} stopped at the platform.` : "";
  return `The lists no longer show ${jobs(all)}${results}.${stopped}`;
}

// What is lost with a job, by its status.
const running = "It is stopped at the platform, and has no results.";
const lost: Record<Status, string> = {
  created: "It will not start.",
  submitted: running,
  queued: running,
  running,
  finished: "Its results and logs are no longer listed here.",
  failed: "Its reason and logs are no longer shown.",
  canceled: "It is no longer listed.",
  unknown: "If it still runs, it is stopped at the platform.",
};

export const texts = {
  loading: "Loading…",
  tryAgain: "Try again",
  resolve: "Resolve this",
  keep: "Keep as it is",
  copy: "Copy",
  copied: "Copied",
  details: "Details",
  more: "Show more",
  clear: "Clear",
  all: "All",
  paused: "Paused",
  search: "Search",
  provenance: "Provenance (PROV-JSON)",
  labels: "Labels",
  live: "Live",
  notLive: "Reconnecting… What you see may be out of date.",
  reference: (id: string) => `Reference: ${id}`,
  skip: "Skip to the content",
  nav: {
    label: "Main",
    services: "Services",
    tasks: "Tasks",
    jobs: "Jobs",
    platforms: "Platforms",
    account: "Account",
    interface: "Interface for programs",
    notices: "Licences",
  },

  signIn: {
    button: "Sign in",
    why: "Sign in to run services and to see your jobs.",
    none: "Sign-in to this page is not set up by the operator. Programs can use the interface.",
    ended: "Your session has ended. Sign in to continue; what you entered on this page is kept.",
    as: (name: string) => `Signed in as ${name}`,
    out: "Sign out",
    outOf: "Ends your session here, in all tabs, and at the identity provider. Your jobs keep running.",
  },

  welcome: {
    picture: "A map of a region, split into tiles. Most of them have results.",
    steps: [
      ["1. Pick a service", "Each is an algorithm that runs at a platform, close to the satellite data."],
      ["2. Draw an area", "A field, a country, or a file of yours. Large areas are split into tiles, a job for each."],
      ["3. Use the results", "They appear on the map as jobs end. Download them, or open them from Python as STAC."],
    ] as [title: string, text: string][],
  },

  errors: {
    unreachable: "The service does not respond. Check your connection, then try again.",
    status: (n: number) => `The service refused the request (status ${n}). Try again later.`,
    unexpected: (text: string) => `Something went wrong on this page: ${text}`,
    notFound: "This page does not exist.",
    crashed: "This view failed. Reload the page. Your jobs are not affected.",
  },

  status: {
    created: "waiting",
    submitted: "submitted",
    queued: "queued",
    running: "running",
    finished: "finished",
    failed: "failed",
    canceled: "canceled",
    unknown: "unknown",
  } satisfies Record<Status, string>,

  // What came of a task whose jobs ended in different ways.
  outcome: {
    canceled: (finished: number, all: number) => `canceled, ${number(finished)} of ${number(all)} finished`,
    failed: (failed: number) => `finished, ${number(failed)} failed`,
  },

  state: {
    ok: "works",
    unknown: "not contacted yet",
    unreachable: "does not respond",
    busy: "busy",
    sign_in_required: "needs your sign-in",
    misconfigured: "misconfigured",
    forbidden: "not open to you",
  } satisfies Record<PlatformState, string>,

  // Labels of the buttons that resolve an attention, by its action.
  attention: { sign_in: "Sign in and link your account", give_access: "Let jobs run after I sign out" },

  services: {
    title: "Services",
    lead: "Pick an algorithm, draw an area, and use the results.",
    search: (n: number) => `Search ${count(n, "service", "services")}`,
    platform: "Platform",
    keyword: "Keyword",
    allPlatforms: "All platforms",
    allKeywords: "All keywords",
    view: "Show as",
    cards: "Cards",
    list: "List",
    found: (n: number) => `${count(n, "service", "services")} found`,
    none: "No services found. Search for fewer words, or clear the filters.",
    empty:
      "There are no services yet. The operator adds them under services: or catalogue: in the configuration; " +
      "programs can run any service by its URL.",
    run: "Run",
    stale: (when: string) => `The catalogue was last read ${when}.`,
    by: (provider: string, platform: string) => `${provider} on ${platform}`,
    on: (platform: string) => `On ${platform}`,
  },

  service: {
    parameters: "Parameters",
    noParameters: "The parameters cannot be read.",
    links: "Links",
    licence: "Licence",
    provider: "Provider",
    platform: "Platform",
    protocol: "Protocol",
    cost: "Cost",
    updated: "Updated",
    formats: "Formats",
    protocols: { openeo: "openEO", ogc_api_process: "OGC API - Processes" } satisfies Record<Label, string>,
    costOf: (n: string, unit: string) => `about ${n} ${unit}`,
    name: "Name",
    type: "Type",
    default: "Default",
    required: "required",
    meaning: "Meaning",
    run: "Run this service",
    fromExample: "Start from the example",
    use: "Use it from",
    commandLine: "Command line",
  },

  form: {
    optional: "(optional)",
    title: "Title",
    titleHelp: "Shown in your lists. If empty, it is made from the service, the area and the time.",
    format: "Format of the results",
    area: "Area",
    from: "From",
    until: "Until",
    json: "JSON",
    lines: "One value per line.",
    utc: "In UTC.",
    badJSON: "This is not valid JSON.",
    needed: "This is required.",
    badNumber: "Enter a number.",
    badOrder: "The end must be after the start.",
    least: (n: number) => `at least ${number(n)}`,
    most: (n: number) => `at most ${number(n)}`,
    between: (a: number, b: number) => `${number(a)} to ${number(b)}`,
    notGiven: "Not set",
    span: (from: string, to: string, days: number) =>
      `${from} until ${to} (not included): ${count(days, "day", "days")}`,
    presets: {
      month: "Last month",
      quarter: "Last three months",
      season: (year: number) => `Growing season ${year}`,
    },
    faults: (n: number) => `${count(n, "entry needs", "entries need")} your attention`,
    general: "The request",
    reset: "Start over",
    example: "Fill in an example",
    kept: "What you enter is kept in this tab until you start over or sign out.",
  },

  area: {
    box: "Draw a box",
    polygon: "Draw a polygon",
    upload: "Upload a file",
    country: "Country…",
    chooseCountry: "Choose a country",
    west: "West",
    south: "South",
    east: "East",
    north: "North",
    help: "Draw on the map, type coordinates, drop a GeoJSON, KML or zipped shapefile on the map, or choose a country.",
    unknownSize: "size not defined",
    crosses:
      "The outline crosses itself, so its size is not defined, and platforms may refuse it. " +
      "Move its corners, or draw it again.",
    drawing: "Click on the map for each corner. Double-click to finish, press Escape to cancel.",
    drawingBox: "Drag over the map, or click two corners. Press Escape to cancel.",
    geojson: "As GeoJSON",
    apply: "Use this geometry",
    remove: "Remove the area",
    badCoordinates: "West and east must be from −180 to 180, south and north from −90 to 90, and north above south.",
    badFile: (name: string, why: string) => `${name} cannot be used: ${why}`,
    empty: "it contains no polygon",
    broken: "a polygon in it is incomplete",
    unreadable: "it is not GeoJSON, KML or a zipped shapefile",
    tooLarge: (limit: string) => `it is larger than ${limit}`,
    outside: "its coordinates are not longitudes and latitudes in degrees",
    several: (n: number) => `${number(n)} polygons were joined into one area.`,
    map: "Map of the area. The fields next to it have the same values.",
  },

  value: {
    none: "not set",
    yes: "yes",
    no: "no",
    box: (west: string, south: string, east: string, north: string) =>
      `west ${west}, south ${south}, east ${east}, north ${north}`,
    interval: (from: string, until: string) => `${from} – ${until}`,
  },

  split: {
    title: "How to run",
    one: "One job",
    tiles: "Split into tiles",
    grid: "Tiles",
    cells: (grid: string, width: string, height: string) => `${width} × ${height} km (${grid})`,
    hexagons: (grid: string, size: string) => `Hexagons of about ${size} (${grid})`,
    kinds: {
      degrees: "Squares",
      utm: "Squares of UTM zones",
      mgrs: "Tiles of Sentinel-2 (MGRS)",
      h3: "Hexagons (H3)",
      other: "Others",
    },
    about: (n: number) => `about ${tiles(n)}`,
    own: "Your own cells, from a file",
    ownFile: "Cells",
    ownHelp: "GeoJSON: a FeatureCollection of polygons with ids, which become the names of the jobs.",
    ownCount: (file: string, n: number) => `${file}: ${count(n, "cell", "cells")}`,
    noCells: "it is not a GeoJSON FeatureCollection.",
    needsCells: "Choose the file with your cells.",
    more: "Small tiles, overlap and order",
    minArea: "Leave out tiles smaller than (km²)",
    merge: "Merge them into their neighbours instead",
    buffer: "Extend each tile beyond its border (metres)",
    bufferHelp: "For services with border effects.",
    order: "Order",
    byRow: "By row, from the south",
    fromCentre: "From the centre of the area",
    counting: "Counting the tiles…",
    count: (n: number) => `${tiles(n)}: a job for each`,
    slivers: (n: number) =>
      `${count(n, "tile is a sliver", "tiles are slivers")}, smaller than a tenth of the largest tile. ` +
      "The map shows them with dashed lines.",
    limit: (n: number) => `A task can have at most ${tiles(n)}.`,
    over: (n: number, limit: number) =>
      `${tiles(n)} are more than the limit of ${number(limit)} for a task. ` +
      "Draw a smaller area, or choose larger tiles.",
    needsArea: "Choose an area to see its tiles.",
    none: "No tile overlaps the area.",
  },

  several: {
    time: "Split the time",
    whole: "Not split",
    steps: {
      day: "By day",
      week: "By week, from Monday",
      month: "By month",
      quarter: "By quarter",
      year: "By year",
    } satisfies Record<Step, string>,
    over: "Several values of",
    overNone: "No other parameter",
    lines: "Values",
    linesHelp: "One value per line. Each is combined with each tile and each part of the time.",
    needsEnds: "Enter the start and the end to split the time.",
    badLine: (line: string, why: string) => `“${line}”: ${why}`,
    twice: "A value occurs twice.",
    jobs: (all: number, parts: number[]) =>
      parts.length > 1 ? `${parts.map(number).join(" × ")} = ${jobs(all)}` : jobs(all),
    overLimit: (n: number, limit: number) => `${jobs(n)} are more than the limit of ${number(limit)} for a task.`,
    of: (name: string) => `By ${name}`,
    value: (n: number) => `Value ${number(n)}`,
    show: "Show its jobs",
    done: (done: number, all: number, failed: number) =>
      `${number(done)} of ${number(all)} done${failed > 0 ? `, ${number(failed)} failed` : ""}`,
    combine: "Combine them",
    product: "All combinations",
    zip: "Pair them in order",
    unequal: (parts: number[]) =>
      `To pair values, their numbers must be equal; they are ${parts.map(number).join(" and ")}.`,
  },

  platforms: {
    title: "By platform",
    rate: (n: number) => `${rounded(n)} per hour`,
    unused: "Not used.",
    unreachable: (since: string | null) =>
      since ? `Does not respond. Its last response was ${since}.` : "Has not responded yet.",
    resolve: "Resolve",
    where: "Where to run",
    open: "Fastest available",
    openHelp:
      "Several platforms offer this service. The jobs of a task run at all of them, " +
      "a single job at the first that responds.",
  },

  limits: {
    title: "Limits, labels and note",
    names: {
      budget: "Budget",
      trial: "Trial",
      retries: "Retries",
      hours: "Time limit of a job",
      notify: "Notify",
      labels: "Labels",
      note: "Note",
    },
    help: {
      budget: "Maximum cost of all jobs, in the unit of the platform. The task pauses before it costs more.",
      trial: "Run so many jobs first; the others wait until you have seen their results.",
      retries: "How often to retry a job that failed because of its platform.",
      hours: "In hours. Jobs that run longer are canceled.",
      notify: "An https address that is notified when this run ends or waits for you.",
      labels: "Such as season=spring, crop=wheat, to find runs in the lists.",
      note: "For yourself.",
    },
    bad: (name: string) => `${name}: enter a number above zero.`,
    orMail: "Or your e-mail address.",
    badNotify: "Notify: enter an https address.",
    badLabel: (text: string) => `Labels: “${text}” does not have the form name=value.`,
  },

  pin: {
    label: "Pin this version",
    help:
      "All jobs use the service definition as it is now, even if it changes later. " +
      "Jobs fail if the platform cannot run the pinned version any more.",
    pinned: "as it is at the start",
  },

  atPlatform: {
    label: "Remove from the platform, too",
    help: "The jobs and their results are deleted there. Existing links to the results stop working.",
  },

  run: {
    title: (service: string) => `Run ${service}`,
    review: "Review",
    reviewTitle: "Review and start",
    back: "Change something",
    start: (n: number) => (n === 1 ? "Start the job" : `Start ${jobs(n)}`),
    starting: "Starting…",
    started: (run: string) =>
      `You started ${run} with what is entered here. Change something to run it differently, or start over.`,
    what: "What runs",
    where: "Where",
    account: {
      user: "under your own account there",
      shared: "under the account of this service",
      open: "without an account",
    },
    jobs: "Jobs",
    cost: "Cost",
    estimated: (costs: string, runs: number, basis: string) =>
      basis === "catalogue" ? `${costs}, by the price for each run` : `${costs}, by ${basedOn(runs, basis)}`,
    takes: (time: string, runs: number, basis: string) => `${time} for each job, by ${basedOn(runs, basis)}`,
    runTime: "Run time",
    price: (text: string) => `Price of the provider: ${text}`,
    estimating: "Estimating…",
    noCost: "Unknown: fewer than three of your jobs of this service have finished.",
    sent: (n: number, more: string) =>
      n === 1
        ? `This service takes boxes. The box around your area is sent, which is ${more} larger.`
        : `This service takes boxes. The boxes around your ${number(n)} tiles are sent, ` +
          `which are ${more} larger together. They may overlap.`,
    sentHelp: (km2: string) =>
      `${km2} are processed, shown by dashed lines on the map. ` +
      "Tiles of a grid of squares, such as 20x20km, are boxes.",
    limits: "Limits",
    limitsAt: (platform: string) => `Limits of ${platform}`,
    slots: (of: number) => `The platform gets ${jobs(of)} of this account at once; the others wait for their turn.`,
    liveLimit: (used: number, of: number) =>
      `You have ${count(used, "unfinished job", "unfinished jobs")}; you may have ${number(of)}.`,
    dayLimit: (used: number, of: number) =>
      `You submitted ${jobs(used)} in the last 24 hours; you may submit ${number(of)}.`,
    overLimit: "This exceeds your limits, so the service would refuse it.",
    queue: (n: number) => `Jobs of all users that wait for this platform: ${number(n)}.`,
    notWorking: (state: string) => `The platform now: ${state}. Jobs are accepted and wait.`,
    same: "The same request from elsewhere",
    curl: "curl",
    command: "eodispatch",
    python: "Python",
    token:
      "EODISPATCH_TOKEN is an access token of your identity provider. " +
      "Repeating a request with its Idempotency-Key starts nothing a second time.",
    login: (broker: string) => `Sign in once before: eodispatch login ${broker}`,
    request: "Download the request",
    areaFile: "Download the area",
  },

  lists: {
    tasks: "Tasks",
    jobs: "Jobs",
    searchTasks: "Search tasks by title, number or label",
    searchJobs: "Search jobs by title, number or label",
    noTasks: "You have no tasks yet. A task is a run that is split into tiles.",
    noJobs: "You have no jobs yet. Jobs of tasks are listed at their task.",
    none: "Nothing matches the filters.",
    pick: "Pick a service",
    status: "Status",
    id: "Number",
    name: "Title",
    progress: "Progress",
    tiles: "Finished",
    failedOf: (n: number) => `${number(n)} failed`,
    duration: "Ran",
    costs: "Costs",
    platform: "Platform",
    select: (title: string) => `Select ${title}`,
    selectAll: "Select all that are shown",
    selected: (n: number) => `${number(n)} selected`,
    cancel: "Cancel",
    pause: "Pause",
    resume: "Resume",
    retry: "Retry",
    again: "Run again",
    againQuestion: (titles: string[]) =>
      `Run ${named(titles)} again? ` +
      (titles.length === 1 ? "This submits a new job" : `This submits ${number(titles.length)} new jobs`) +
      " with the same parameters.",
    delete: "Delete",
    cancelQuestion: (titles: string[]) =>
      `Cancel ${named(titles)}? Running jobs are stopped at the platform; finished ones keep their results.`,
    deleteQuestion: (titles: string[], all: number, finished: number, alive: number) =>
      `Delete ${named(titles)}? ${losses(all, finished, alive)} This cannot be undone.`,
    working: (done: number, all: number) => `${number(done)} of ${number(all)} done…`,
    failed: (n: number, why: string) =>
      `${count(n, "entry", "entries")} could not be changed and are still selected. ${why}`,
    selectFound: (n: number) => `Select all ${number(n)}`,
    of: (shown: number, all: number) => `${number(shown)} of ${number(all)} shown`,
  },

  task: {
    task: (id: number) => `Task ${id}`,
    started: (when: string) => `started ${when}`,
    done: (done: number, all: number) => `${number(done)} of ${tiles(all)} done`,
    doneWith: (done: number, all: number, failed: number) =>
      `${number(done)} of ${tiles(all)} done, ${number(failed)} failed`,
    map: "Tiles by status. The table has the same information.",
    noMap: "This task has nothing to show on a map.",
    table: "Tiles",
    tile: "Tile",
    tileOf: (n: number) => `Tile ${number(n)}`,
    status: "Status",
    duration: "Ran",
    costs: "Costs",
    queue: (n: number) => (n === 0 ? "next in the queue" : `${number(n)} ahead in the queue`),
    retrySome: (n: number) => `Retry ${tiles(n)}`,
    retryAll: (n: number) => `Retry all ${count(n, "failed tile", "failed tiles")}`,
    left: (time: string, runs: number, basis: string) => `About ${time} left, by ${basedOn(runs, basis)}.`,
    queueOfNext: (n: number) => `${jobs(n)} of this account ahead of the next tile.`,
    showFailed: "Show them",
    tabs: { label: "Parts of the task", overview: "Overview", tiles: "Tiles", results: "Results", costs: "Costs" },
    rest: (n: number) => `Remaining: ${tiles(n)}`,
    restCosts: (costs: string, runs: number, basis: string) => `Expected to cost ${costs}, by ${basedOn(runs, basis)}.`,
    restTakes: (takes: string, runs: number, basis: string) =>
      `Expected to take ${takes} from when you resume, by ${basedOn(runs, basis)}.`,
    pause: "Pause",
    resume: "Resume",
    pausedHelp: (waiting: number) =>
      (waiting > 0
        ? `${count(waiting, "tile is", "tiles are")} held until you resume.`
        : "New tiles are held until you resume.") + " Submitted tiles go on.",
    waitsForResume: "held until you resume",
    cancel: "Cancel",
    cancelSome: (n: number) => `Cancel ${tiles(n)}`,
    cancelSomeQuestion: (n: number) =>
      `Cancel ${count(n, "unfinished tile", "unfinished tiles")}? Running ones are stopped at the platform. ` +
      "The other tiles go on.",
    cancelQuestion: (n: number) =>
      `Cancel ${count(n, "unfinished tile", "unfinished tiles")}? Running ones are stopped at the platform. ` +
      "Finished tiles keep their results.",
    delete: "Delete",
    deleteQuestion: (title: string, all: number, finished: number, alive: number) =>
      `Delete the task “${title}”? ${losses(all, finished, alive)} This cannot be undone.`,
    failed: (n: number) => `${count(n, "tile", "tiles")} failed`,
    says: "The platform says:",
    progress: "Progress",
    gone: "This task does not exist. It may have been deleted.",
    show: "Show",
    showTile: "Show on the map",
    all: "All tiles",
  },

  costs: {
    total: "Costs so far",
    of: "Tiles with known costs",
    each: "Costs of a tile",
    ran: "Run time of all tiles",
    ranEach: "Run time of a tile",
    none: "No costs are known yet.",
  },

  // A task whose tiles wait for its owner, or for its budget. Titles are by the code of its attention.
  pause: {
    titles: {
      budget_reached: "Paused: the budget is reached",
      budget_unusable: "Paused: the budget cannot be kept",
      costs_awaited: "Paused until the first costs are known",
      trial: "On trial",
      trial_ended: "The trial has ended",
    } as Record<string, string>,
    budget: "Budget",
    spent: (spent: string, amount: string, unit: string) => `${spent} of ${amount} ${unit} spent`.replace("  ", " "),
    expected: (n: string, unit: string) => `about ${n} ${unit} more for running tiles`.replace("  ", " "),
    newBudget: (unit: string) => (unit ? `New budget in ${unit}` : "New budget"),
    newBudgetHelp: (now: string) => `For all tiles of the task, including those that have ended. It is ${now} now.`,
    raise: "Raise the budget and go on",
    withoutBudget: "Go on without a budget",
    runOthers: (n: number) => `Run the other ${tiles(n)}`,
  },

  job: {
    job: (id: number) => `Job ${id}`,
    course: "History",
    parameters: "Parameters",
    logs: "Logs",
    results: "Results",
    definition: "Definition of the service",
    created: "Accepted",
    started: "Started",
    ended: "Ended",
    checked: "Last report of the platform",
    updated: "Last change",
    duration: "Ran for",
    costs: "Costs",
    platform: "Platform",
    platformJob: "Job at the platform",
    queue: "In the queue",
    starts: "Expected to start",
    ends: "Expected to end",
    expected: (when: string, runs: number, basis: string) => `${when}, by ${basedOn(runs, basis)}`,
    noLogs: "The platform has logged nothing yet.",
    level: "Level",
    all: "All levels",
    cancel: "Cancel",
    cancelQuestion: "Cancel this job? It is stopped at the platform.",
    delete: "Delete",
    deleteQuestion: (title: string, status: Status) =>
      `Delete the job “${title}”? ${lost[status]} This cannot be undone.`,
    gone: "This job does not exist. It may have been deleted.",
    failed: "The job failed",
    retry: "Retry",
    again: "Run again",
    edit: "Edit and run again",
    noService: "The catalogue does not have the service any more.",
    resume: "Resume the task",
  },

  results: {
    notYet: "No results yet. They appear here as jobs finish.",
    none: "The job has no files.",
    noneOfJob: "The job has not finished, so it has no results.",
    noneOfTask: "No tile has finished, so there are no results.",
    open: "Show on the map",
    hide: "Remove from the map",
    download: "Download",
    link: "Copy the link",
    mosaic: (n: number) => `Show ${tiles(n)} on the map`,
    hideAll: "Remove all from the map",
    band: "Bands",
    colours: "Colour image of three bands",
    channels: ["Red", "Green", "Blue"],
    stretch: "Contrast",
    stretches: { meant: "As the files describe", most: "Most values (2 to 98 %)", all: "All values" },
    bandOf: (n: number) => `Band ${n}`,
    low: "Darkest at",
    high: "Brightest at",
    auto: "Fit to the values",
    palette: "Colours",
    palettes: { viridis: "Viridis", grey: "Grey", greens: "Greens" },
    reading: (n: number, all: number) => `${number(n)} of ${number(all)} read…`,
    opacity: "Opacity",
    here: "Values here",
    noData: "no data",
    values: "Values",
    column: "Colour the tiles by",
    noColumn: "their status",
    csv: "Download as CSV",
    cors: "The platform does not allow web pages to read this file. Download it instead.",
    unreadable: (why: string) => `The file cannot be shown: ${why}`,
    list: "List for download tools",
    listHelp: "A file with one link per line, for wget -i or aria2c -i. The links may expire.",
    command: "Or use the command line:",
    stac: "STAC Collection",
    preview: "Preview",
    look: "Colours and contrast",
    loaded: (n: number, all: number) => `${number(n)} of ${number(all)} finished tiles listed`,
    date: "Date",
    noDate: "not known",
    missing: (n: number) => `The results of ${tiles(n)} cannot be read:`,
    tryAgain: "Try again",
  },

  account: {
    title: "Account",
    platforms: "Platforms",
    platform: "Platform",
    access: {
      user: "Jobs run under your own account there.",
      shared: "Jobs run under the account of this service.",
      open: "Jobs run without an account.",
    },
    slots: (used: number, of: number) => `The account runs ${jobs(used)} of at most ${number(of)} at once.`,
    lastAnswer: (when: string) => `Last response ${when}.`,
    noAnswer: "Has not responded yet.",
    queue: (n: number) => (n === 0 ? "No jobs wait." : `Jobs of all users that wait: ${number(n)}.`),
    link: "Link your account",
    linkAgain: "Link your account again",
    unlinkHelp: "The identity provider stores the links to your accounts. You can remove them there:",
    manage: "open your account there",
    waiting: (w: number, a: number) =>
      w + a === 0 ? "You have no waiting or running jobs." : `Your jobs: ${number(w)} waiting, ${number(a)} running.`,
    permissions: "Permissions",
    permissionsLead: "With a permission, your jobs keep running while you are signed out.",
    noPermissions: "You have not given a permission.",
    give: "Let jobs run after I sign out",
    takeBack: "Withdraw",
    takeBackQuestion: "Withdraw this permission? Jobs that need your account pause until you sign in again.",
    kinds: { session: "as long as you are signed in at the identity provider", offline: "until you withdraw it" },
    used: (when: string) => `last used ${when}`,
    expires: (when: string) => `expires ${when} if unused`,
    usage: "Usage and limits",
    live: "Unfinished jobs",
    lastDay: "Submitted in the last 24 hours",
    stored: "Jobs in your lists",
    costs: "Costs",
    overall: "All platforms",
    of: (used: number, limit: number | null) => (limit === null ? number(used) : `${number(used)} of ${number(limit)}`),
    failure: (text: string) => `The last request to the platform failed: ${text}`,
  },

  hooks: {
    title: "Notifications",
    lead: (mail: boolean) =>
      `Have a server of yours${mail ? ", or your mailbox," : ""} notified of your jobs, ` +
      "instead of keeping this page open.",
    none: "There are no notifications yet.",
    add: "Add a notification",
    how: "How",
    mail: (address: string) => `By mail to ${address}`,
    url: "A message to a URL",
    address: "URL",
    addressHelp: "It receives a signed POST for each event. It needs https and a public address.",
    of: "Notify about",
    events: {
      running: "A job runs",
      finished: "A job finished",
      failed: "A job failed",
      canceled: "A job was canceled",
      attention: "A job or task waits for you",
      task_ended: "A task ended",
      task_share: "A share of a task ended",
      sign_in_required: "Your sign-in is needed",
      test: "Test",
    },
    shares: (shares: number[]) => shares.map(n => `${n} %`).join(", "),
    states: { active: "active", failing: "messages do not arrive", gone: "ended by the receiver" },
    since: (when: string) => `added ${when}`,
    nextTry: (when: string) => `next try ${when}`,
    test: "Send a test",
    log: "Messages",
    remove: "Remove",
    removeQuestion: (url: string) => `Remove ${url}? Waiting messages are dropped.`,
    secret: "Store this secret: it is not shown again",
    secretHelp: (url: string) => `With it, ${url} verifies the signature of messages (Standard Webhooks).`,
    kept: "I have stored it",
    noMessages: "No messages yet.",
    event: "Event",
    about: "About",
    job: (id: number) => `Job ${id}`,
    task: (id: number) => `Task ${id}`,
    when: "Happened",
    state: "State",
    deliveryStates: { waiting: "waiting", delivered: "delivered", failed: "given up" },
    tries: "Tries",
    again: "Send again",
  },

  map: {
    zoomIn: "Zoom in",
    zoomOut: "Zoom out",
    fit: "Show everything",
    search: "Find a place on the map",
    searchHint: "Place, 31UFS or 51.05, 3.72",
    notFound: "No place found.",
    image: "Base map of images",
    outlines: "Map: Natural Earth; places: GeoNames (CC BY 4.0)",
    legend: "Legend",
  },
};
