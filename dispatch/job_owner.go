package dispatch

import "time"

// The methods in this file return what a decision of the owner of a job makes of it, and report whether it changes
// anything. A decision that a visit must not undo takes a new version, so that the visit reads the job again.

// Cancel returns a job that its owner no longer wants. One that waits ends at once. One in doubt is settled as soon as
// its request is certainly over.
func (j Job) Cancel(now time.Time) (Job, bool) {
	if j.Hidden || j.Desired != WantRun || j.Phase == Ended {
		return j, false
	}
	j.Desired, j.Version = WantCancel, j.Version+1
	if over := j.SendBy.Add(SettleMargin); !j.Phase.InDoubt() || !over.After(now) {
		j.Due = now
	} else {
		j.Due = Earlier(j.Due, over)
	}
	if j.Phase == Waiting {
		j.Phase, j.Status, j.Epoch = Ended, Canceled, j.Epoch+1
		j.Attention, j.Notice, j.Moved, j.Updated = None, "", now, now
	}
	return j, true
}

// Pause returns a job whose task is paused. A visit may be about to submit it, or to find that it waits again. Failed
// jobs are paused, too, in case that they are retried.
func (j Job) Pause(now time.Time) (Job, bool) {
	if j.Hidden || j.Paused || j.Phase == Ended && j.Status != Failed {
		return j, false
	}
	j.Paused = true
	return j.repaused(now), true
}

// Resume undoes Pause.
func (j Job) Resume(now time.Time) (Job, bool) {
	if !j.Paused {
		return j, false
	}
	j.Paused = false
	return j.repaused(now), true
}

func (j Job) repaused(now time.Time) Job {
	switch j.Phase {
	case Waiting:
		j.Version, j.Updated, j.Due, j.Attention, j.Notice = j.Version+1, now, now, None, ""
		j = j.idlePaused()
	case Creating:
		j.Version++
	}
	return j
}

// Hide returns a job that its owner deleted.
func (j Job) Hide() (Job, bool) {
	if j.Hidden {
		return j, false
	}
	j.Hidden = true
	return j, true
}

// PlanRemoval returns a job that is to be removed from its platform.
func (j Job) PlanRemoval(now time.Time) (Job, bool) {
	if !j.Removable() {
		return j, false
	}
	j.Removal.Due, j.Version = now, j.Version+1
	return j, true
}

// FailWithoutSignIn returns a job that failed because its user did not sign in.
func (j Job) FailWithoutSignIn(failure string, now time.Time) (Job, bool) {
	if !j.Phase.Inert() || j.Desired != WantRun || j.Phase == Waiting && j.Paused {
		return j, false
	}
	j.Phase, j.Status, j.Attention, j.Notice, j.Failure = Ended, Failed, NeedsSignIn, "", failure
	j.Awaited, j.Epoch, j.Version, j.Moved, j.Updated = false, j.Epoch+1, j.Version+1, now, now
	return j, true
}

// DoubtStart returns a created job that may have been started since a database was restored.
func (j Job) DoubtStart(now time.Time) (Job, bool) {
	if j.Phase != Created {
		return j, false
	}
	j.Phase, j.Epoch, j.Version, j.Polls, j.Unmoved, j.Seen = Starting, j.Epoch+1, j.Version+1, 0, 0, ""
	j.SendBy, j.Due, j.Moved, j.Updated, j.Attention, j.Notice = now, now, now, now, InDoubt, ""
	return j, true
}
