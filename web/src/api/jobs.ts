// Jobs that are run again.
import { get, post } from "./client";
import type { Job } from "./wire";

// runAgain submits a new job with what another was submitted with, and returns its id.
export async function runAgain(id: number): Promise<number> {
  const { title, label, service, parameters, format } = await get<Job>(`unit_jobs/${id}`);
  const made = await post<Job>("unit_jobs", { title, label, service, parameters, format }, { "Idempotency-Key": crypto.randomUUID() });
  return made.id;
}
