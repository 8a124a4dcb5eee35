// Requests to the broker, in the session of the page.
import type { ErrorBody, ValidationError } from "./wire";

// Refused is an error response of the broker, or the failure to reach it (status 0).
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly errors: ValidationError[] = [],
    readonly link: string | null = null,
    readonly reference: string | null = null,
  ) {
    super(message);
  }
}

let unauthorized = (): void => undefined;

// onUnauthorized calls back when the broker knows no session of this browser.
export const onUnauthorized = (then: () => void): void => void (unauthorized = then);

// address returns a URL of the broker. Paths are relative because a proxy may serve the page below a path.
export function address(path: string): URL {
  return new URL(path, document.baseURI.split("#")[0]);
}

export interface Answer<T> {
  body: T;
  etag: string | null;
}

// ask sends a request and returns its response; null as body for 304. It throws Refused.
export async function ask<T>(
  method: string,
  path: string,
  options: { body?: unknown; headers?: Record<string, string>; signal?: AbortSignal } = {},
): Promise<Answer<T>> {
  const headers: Record<string, string> = { Accept: "application/json", ...options.headers };
  if (method !== "GET") headers["Content-Type"] = "application/json";
  let response: Response;
  try {
    response = await fetch(address(path), {
      method,
      headers,
      credentials: "same-origin",
      cache: "no-store",
      body: options.body === undefined ? null : JSON.stringify(options.body),
      signal: options.signal ?? null,
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Refused(0, "UNREACHABLE", "");
  }
  const text = await response.text();
  if (!response.ok && response.status !== 304) throw refused(response.status, text);
  return { body: (text === "" ? null : JSON.parse(text)) as T, etag: response.headers.get("ETag") };
}

function refused(status: number, text: string): Refused {
  if (status === 401) unauthorized();
  try {
    const body = JSON.parse(text) as ErrorBody & { detail?: ValidationError[] };
    return new Refused(
      status,
      body.error_code,
      body.message,
      body.detail ?? [],
      (body.details?.["link"] as string | undefined) ?? null,
      body.request_id ?? null,
    );
  } catch {
    return new Refused(status, "", "");
  }
}

// newKey returns a new Idempotency-Key. Pages of plain http have no crypto.randomUUID.
export const newKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), b => b.toString(16).padStart(2, "0")).join("");

// mayPass reports whether a request that failed may succeed when it is repeated.
export const mayPass = (error: unknown): boolean =>
  error instanceof Refused && (error.status === 0 || error.status === 429 || error.status >= 500);

export const get = async <T>(path: string, signal?: AbortSignal): Promise<T> =>
  (await ask<T>("GET", path, signal ? { signal } : {})).body;
export const post = async <T>(path: string, body?: unknown, headers?: Record<string, string>): Promise<T> =>
  (await ask<T>("POST", path, { body, ...(headers ? { headers } : {}) })).body;

// isMissing reports whether what was asked for does not exist, or no longer.
export const isMissing = (error: unknown): boolean =>
  error instanceof Refused && (error.status === 404 || error.status === 422);

// removeRun deletes a job or task, and on request also from its platform.
export const removeRun = (path: string, atPlatform: boolean): Promise<void> =>
  remove(atPlatform ? `${path}?platform=true` : path);

// remove deletes something. Another tab may have done so before; that is what was wanted.
export async function remove(path: string): Promise<void> {
  try {
    await ask("DELETE", path);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}
