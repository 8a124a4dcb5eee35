// Jobs that are run again.
import { get, newKey, post } from "./client";
import type { Job } from "./wire";

// canRunAgain reports whether the broker still has what a job was submitted with, and takes it from the page: not the
// processes that clients of the openEO API sent with a job.
export const canRunAgain = (job: Job): boolean =>
  !job.parameters_deleted && !job.service.application.startsWith("process_graph#");

const keys = new Map<number, string>(); // of jobs that were asked to run again, until the broker has answered

// runAgain submits a new job with what another was submitted with, and returns its id. After a response that was lost,
// to ask again returns the job that was made.
export async function runAgain(id: number): Promise<number> {
  const { title, label, service, parameters, format, options } = await get<Job>(`unit_jobs/${id}`);
  const key = keys.get(id) ?? newKey();
  keys.set(id, key);
  const made = await post<Job>(
    "unit_jobs",
    { title, label, service, parameters, format, options },
    { "Idempotency-Key": key },
  );
  keys.delete(id);
  return made.id;
}
