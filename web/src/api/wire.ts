// The JSON of the broker's interface, as /openapi.json describes it. Only members that the page reads are named.
import type { FeatureCollection, Geometry, MultiPolygon, Polygon } from "geojson";

export type Status = "created" | "submitted" | "queued" | "running" | "finished" | "canceled" | "failed" | "unknown";

export interface User {
  id: string;
  name?: string;
  email?: string;
}

export interface Session {
  user: User;
  expires: string;
}

export interface Settings {
  title: string;
  version: string;
  sign_in: boolean; // users can sign in
  signed_in_needed: boolean; // to list services
  account: string; // where the account at the identity provider is managed; "": not known
  base_map: { url: string; attribution: string } | null;
  limits: { values?: number; tiles?: number; body_bytes?: number };
  links?: { rel?: string; href: string; title?: string }[];
}

export interface ServiceSummary {
  id: string;
  title: string;
  summary?: string;
  keywords?: string[];
  platform: string;
  platform_state?: PlatformState;
  label: Label;
  provider?: { name: string; url?: string | null } | null;
  licence?: string | null;
  thumbnail?: string | null;
  updated?: string | null;
  stale_since?: string | null;
  homes?: ServiceHome[]; // the platforms that offer it, if there are several
}

export interface ServiceHome {
  platform: string;
  platform_state: PlatformState;
  label: Label;
}

// platformsOf returns the names of the platforms that offer a service.
export const platformsOf = (s: ServiceSummary): string[] => s.homes?.map((h) => h.platform) ?? [s.platform];

export interface ServiceList {
  services: ServiceSummary[];
  next?: string;
  total: number;
  platforms: { id: string; title: string; services: number }[];
  keywords: { keyword: string; services: number }[];
}

export interface Link {
  rel: string;
  href: string;
  title?: string;
  type?: string;
}

export interface Service extends ServiceSummary {
  description?: string;
  description_html?: string;
  links?: Link[];
  cost?: { estimate: number | null; unit: string | null; note: string | null } | null;
  endpoint: string;
  application: string;
  namespace?: string | null;
  parameters: Parameter[] | null;
  parameters_error?: ErrorBody | null;
  formats?: { name: string; title?: string; gis_data_types?: string[] }[] | null;
  example?: Record<string, unknown> | null;
}

export type ParameterType =
  | "datetime" | "date-interval" | "bounding-box" | "polygon" | "boolean" | "integer" | "double" | "string" | "array-string"
  | "object" | "array";

export interface Parameter {
  name: string;
  type: ParameterType;
  optional: boolean;
  description: string;
  default: unknown;
  options: unknown[];
  schema: unknown;
  minimum?: number;
  maximum?: number;
  nullable: boolean;
  warning?: string;
}

export interface ValidationError {
  loc: (string | number)[];
  msg: string;
  type: string;
}

export interface ErrorBody {
  error_code: string;
  message: string;
  details?: { errors?: ValidationError[]; link?: string | null } | null;
  request_id?: string | null;
}

export type Label = "openeo" | "ogc_api_process";
export interface JobRequest {
  title: string;
  label?: Label; // absent: several platforms offer the service
  service: { id: string; platform?: string };
  parameters: Record<string, unknown>;
  format: string;
  options?: { pin: true };
}

export type Step = "day" | "week" | "month" | "quarter" | "year";

// Dimension is a parameter and its values, or an interval of time that the broker splits.
export type Dimension = { name: string; values: unknown[]; names?: string[] } | { name: string; interval: [string, string]; split: Step };

// TaskRequest has one dimension of values, or several, of which each combination is a job, or with zip the values at each position.
export interface TaskRequest extends JobRequest {
  dimension?: { name: string; values: unknown[]; names?: string[] };
  dimensions?: Dimension[];
  combine?: "zip";
}

export interface DimensionProgress {
  name: string;
  values: { name?: string; value?: unknown; jobs: number[] }[];
}

export interface Attention {
  code: string;
  message: string;
  link: string | null;
}

// When something is expected: in about one of ten cases before early, and in about one after late.
export interface TimeRange {
  early: string;
  late: string;
}

// When a job starts and ends, or a task ends, by the owner's finished jobs.
export interface Forecast {
  start?: TimeRange; // of a job that waits
  end: TimeRange;
  runs: number;
  basis: "task" | "area" | "service";
}

export interface Spread {
  low: number;
  likely: number;
  high: number;
}

// What the jobs of a task that wait are expected to cost, and how many seconds they take.
export interface TaskRest {
  jobs: number;
  costs: Spread | null;
  cost_unit: string;
  cost_runs: number;
  seconds: Spread | null;
  seconds_runs: number;
  basis: "task" | "area" | "service";
}

// What its owner wrote on a job or task.
export interface Annotations {
  labels?: Record<string, string>;
  note?: string;
}

export interface Job extends Annotations {
  id: number;
  title: string;
  name?: string; // of its values, such as the id of its tile's cell
  label: Label;
  status: Status;
  service: { endpoint: string; namespace?: string | null; application: string };
  parameters?: Record<string, unknown>;
  parameters_deleted?: boolean;
  options?: Record<string, unknown>; // not in lists
  attention?: Attention;
  warning?: string;
  failure?: string;
  progress?: number;
  checked?: string;
  queue_position?: number;
  forecast?: Forecast; // not in lists
  task_id?: number;
  platform?: string;
  platform_job_id?: string;
  format?: string;
  costs?: number;
  cost_unit?: string; // in the platform's words
  duration?: number;
  created?: string;
  updated?: string;
}

export interface TaskSummary extends Annotations {
  id: number;
  title: string;
  label: Label;
  status: Status;
  paused?: boolean;
  homes?: { platform: string }[]; // its platforms, if there are several
  budget?: TaskBudget;
  trial?: number;
  counts?: Partial<Record<Status, number>>;
  progress?: number;
  forecast?: Forecast; // not in lists
  rest?: TaskRest; // not in lists
  attention?: Attention;
  warning?: string;
}

// How far the jobs of a task are at one of its platforms.
export interface PlatformProgress {
  platform: string;
  unused?: string; // why no job runs there
  notice?: string; // what the user had to do when the task was accepted
  link?: string; // where
  counts: Partial<Record<Status, number>>;
  per_hour: number; // jobs that finish there in an hour
  state?: PlatformState;
  last_answer?: string;
  failure?: string;
  attention?: Attention;
}

// What the jobs of a task may cost, and what they have cost.
export interface TaskBudget {
  amount: number;
  unit: string; // in the platform's words; empty: it has not named one
  spent: number;
  expected: number; // what the jobs are expected to cost whose costs are not known yet
}

export interface Task extends TaskSummary {
  service: Job["service"];
  created: string;
  updated: string;
  jobs: Job[];
}

export interface JobsStatus {
  upscaling_tasks: TaskSummary[];
  processing_jobs: Job[];
}

export interface Changes {
  upscaling_tasks: TaskSummary[] | null;
  processing_jobs: Job[] | null;
  removed_upscaling_tasks?: number[] | null;
  removed_processing_jobs?: number[] | null;
}

export interface Tile {
  type: "Feature";
  id: number;
  geometry: Geometry | null;
  bbox?: number[];
  properties: { title: string; name?: string; status: Status; progress?: number; failure?: string };
}

export interface TileMap {
  type: "FeatureCollection";
  features: Tile[];
}

export interface Tiles {
  type: "GeometryCollection";
  geometries: (Polygon | MultiPolygon)[];
  ids: string[];
}

// TileRequest is an area to split: into the cells of a grid, or the user's own.
export interface TileRequest {
  aoi: Polygon | MultiPolygon;
  grid?: string;
  cells?: FeatureCollection;
  min_area?: number; // square metres
  merge?: true;
  buffer?: number; // metres
  order?: "centre";
}

export interface Grid {
  name: string;
  description: string;
  cell_width: number;
  cell_height: number;
}

export interface Asset {
  href: string;
  type?: string;
  title?: string;
  roles?: string[];
  "file:size"?: number;
}

export interface Collection {
  id: string;
  assets?: Record<string, Asset>;
  links?: Link[];
}

export interface Item {
  id: string;
  geometry: Geometry | null;
  bbox?: number[];
  properties: { name?: string; [member: string]: unknown };
  assets: Record<string, Asset>;
  links: Link[];
}

export interface ItemPage {
  features: Item[];
  links: Link[];
  numberMatched: number;
  "eodispatch:missing": MissingResults[];
}

// MissingResults says why a finished job has no Item.
export interface MissingResults {
  id: number;
  name?: string;
  error_code: string;
  message: string;
  temporary: boolean;
}

export type PlatformState = "ok" | "unknown" | "unreachable" | "busy" | "sign_in_required" | "misconfigured" | "forbidden";

export interface Share {
  used: number;
  of: number | null;
}

export interface Platform {
  name: string;
  label: Label;
  endpoint: string;
  access: "user" | "shared" | "open";
  state: PlatformState;
  last_answer: string | null;
  failure?: string;
  attention?: Attention;
  queue_length: number;
  jobs: { waiting: number; active: number };
  slots: Share;
  live: Share;
  last_day: Share;
}

export interface PlatformList {
  platforms: Platform[];
  live: Share;
  last_day: Share;
  bytes: Share;
}

export interface Usage {
  platform: string;
  live: number;
  live_limit: number | null;
  last_day: number;
  last_day_limit: number | null;
  jobs: number;
  costs: number | null;
  charges: { unit: string }[];
}

export interface Grant {
  id: string;
  kind: "session" | "offline";
  platforms: string[];
  created: string;
  renewed: string;
  expires: string | null;
}

export type HookEvent = "running" | "finished" | "failed" | "canceled" | "attention" | "task_ended" | "task_share";

export interface Hook {
  id: string;
  job_id?: number;
  task_id?: number;
  kind: "webhook" | "mail" | "ogc";
  url: string;
  events: HookEvent[];
  shares?: number[];
  state: "active" | "failing" | "gone";
  next_try: string | null;
  created: string;
}

export interface NewHook extends Hook {
  secret: string; // shown only here
}

export interface Delivery {
  id: string;
  job_id: number | null;
  task_id?: number;
  event: HookEvent | "sign_in_required" | "test";
  share?: number;
  attention?: string; // why the job or the task waits for the user
  happened: string;
  state: "waiting" | "delivered" | "failed";
  tries: number;
  tried: string | null;
  answer: number | null;
  notice?: string;
  next_try: string | null;
}

export interface LogPage {
  logs: { time: string | null; level: "error" | "warning" | "info" | "debug"; message: string }[];
}
