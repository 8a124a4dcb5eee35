package dispatch

// FinishedChange is a change of the jobs of a task that somebody else has begun.
type FinishedChange struct {
	Task    TaskID
	Owner   UserID
	Account Account
	Action  string
}
