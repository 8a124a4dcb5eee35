import type { Job } from "../api/wire";
import { Act } from "../controls";
import { serviceOf } from "../form/again";
import { go, to } from "../route";
import { texts } from "../texts";

// EditAgain leads to the form of a run's service, filled in with the run: "job-7" or "task-7".
export function EditAgain({ run, of }: { run: string; of: Pick<Job, "service"> }) {
  return (
    <Act
      class="edit-again"
      label={texts.job.edit}
      act={async () => {
        const service = await serviceOf(of);
        if (!service) throw new Error(texts.job.noService);
        go(to(["new", service.id], { from: run }));
      }}
    />
  );
}
