package dispatch

// Notify is an address that a request asks to notify of its own job, or its task.
type Notify struct {
	Kind     HookKind
	URL      string
	Statuses []Status // nil: the ends of the job, or that of the task, and what waits for its owner
	Verified bool     // of Mail: the identity provider says that the address is the user's
	Secret   Secret   // signs messages; "": they are not signed
}

// Targets makes hooks of what requests ask for. Hooks are stored with the job or the task.
type Targets interface {
	// Target returns a hook without a job. Invalid if nothing is sent to the address; Unsupported if it has a secret and
	// the service cannot keep one.
	Target(UserID, Notify) (Hook, error)
}
