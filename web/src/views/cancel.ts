// Canceling a task is canceling its jobs: the broker's interface cancels a task as a whole only when it deletes it.
import { ask, post } from "../api/client";
import type { Job, Task } from "../api/wire";
import { ended } from "../status";

const atOnce = 4; // requests

// cancelJobs cancels the jobs of a task that have not ended. Those that wait come first, so that none starts meanwhile.
export async function cancelJobs(task: number, progress: (done: number, all: number) => void = () => undefined): Promise<void> {
  const alive: Job[] = [];
  for (let query: string | null = "?limit=1000&parameters=false"; query; ) {
    const page: { body: Task; next: string | null } = await ask<Task>("GET", `upscale_tasks/${task}${query}`);
    alive.push(...page.body.jobs.filter((j) => !ended(j.status)));
    query = page.next;
  }
  alive.sort((a, b) => Number(a.status !== "created") - Number(b.status !== "created"));
  let [next, done] = [0, 0];
  const worker = async () => {
    for (let j = alive[next++]; j; j = alive[next++]) {
      await post(`unit_jobs/${j.id}/cancel`);
      progress(++done, alive.length);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}
