// Changes of tasks and of their jobs. To repeat one has no further effect, so tabs that make the same change do not
// disturb each other.
import { post } from "./client";

// changeTask changes all jobs of a task that the change applies to.
export async function changeTask(id: number, change: "cancel" | "pause" | "resume" | "retry"): Promise<void> {
  await post(`upscale_tasks/${id}/${change}`);
}

// resumeTask has the waiting jobs of a task go on; within another budget, or without one (null).
export async function resumeTask(id: number, budget?: number | null): Promise<void> {
  await post(`upscale_tasks/${id}/resume`, budget === undefined ? undefined : { budget });
}

const mostJobs = 1000; // that one request can name

// changeJobs changes some jobs of a task.
export async function changeJobs(task: number, change: "cancel" | "retry", jobs: number[]): Promise<void> {
  for (let at = 0; at < jobs.length; at += mostJobs)
    await post(`upscale_tasks/${task}/${change}`, { jobs: jobs.slice(at, at + mostJobs) });
}
