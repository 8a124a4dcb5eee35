// The types of the interface, which schema.ts has from the OpenAPI document, under the page's names, and narrower where
// the page knows more.
import type * as schema from "./schema";

export type {
  Asset,
  Collection,
  Delivery,
  DimensionProgress,
  Estimate,
  Grant,
  Grid,
  Hook,
  Link,
  LogPage,
  MissingResults,
  NewHook,
  Parameter,
  Platform,
  PlatformList,
  PlatformProgress,
  PlatformState,
  ServiceList,
  ServiceSummary,
  TaskBudget,
  TaskOptions,
  TaskRest,
  Tile,
  Usage,
  ValidationError,
} from "./schema";

export type Status = schema.ProcessingStatusEnum;
export type Session = schema.SignedIn;
export type ErrorBody = schema.ErrorResponse;
export type Service = schema.CatalogueService;
export type TaskSummary = schema.UpscalingTaskSummary;
export type Task = schema.UpscalingTask;
export type JobsStatus = schema.JobsStatusResponse;
export type HookEvent = schema.Hook["events"][number];
export type Attention = schema.JobAttention;
export type TileMap = schema.TaskTiles;
export type Tiles = schema.GeometryCollection;
export type Changes = schema.StatusChanges;
export type Label = schema.ProcessTypeEnum;

// A job by itself, or in a list, where some members are absent.
export type Job = schema.ProcessingJobSummary & Partial<schema.ProcessingJob>;

export type Annotations = Pick<Job, "labels" | "note">;

// The page names services by their ids, and always a format.
export type JobRequest = schema.BaseJobRequest & { service: schema.ServiceReference; format: string };
export type Step = "day" | "week" | "month" | "quarter" | "year";
// A dimension is a parameter and its values, or an interval of time that the broker splits.
export type Dimension =
  | { name: string; values: unknown[]; names?: string[] }
  | { name: string; interval: [string, string]; split: Step };
export type TaskRequest = Omit<JobRequest, "options"> & {
  options?: schema.TaskOptions | null;
  dimension?: { name: string; values: unknown[]; names?: string[] };
  dimensions?: Dimension[];
  combine?: schema.UpscalingTaskRequest["combine"];
};

export type TileRequest = Omit<schema.TileRequest, "grid"> & { grid?: string }; // one of GET /grids
export type Item = schema.Item & { properties: { name?: string } };
export type ItemPage = schema.ItemPage & { features: Item[] };

// What GET /settings of the page returns, which is not part of the interface.
export interface Settings {
  title: string;
  version: string;
  sign_in: boolean; // users can sign in
  signed_in_needed: boolean; // to list services
  account: string; // where the account at the identity provider is managed; "": not known
  mail: boolean; // users can be notified by mail
  base_map: { url: string; attribution: string } | null;
  limits: { values?: number; tiles?: number; body_bytes?: number };
  links?: { rel?: string; href: string; title?: string }[];
}

// platformsOf returns the names of the platforms that offer a service.
export const platformsOf = (s: schema.ServiceSummary): string[] => s.homes?.map(h => h.platform) ?? [s.platform];
