package dispatch

import "fmt"

// OfAnother returns the outcome of a submission for which the platform returned the identifier of another job.
func (o Outcome) OfAnother() Outcome {
	o.Err = &Error{Kind: BadUpstream, Op: "dispatch.submit", Text: fmt.Sprintf(
		"The platform returned the identifier %q for this job, which it has given to another job, so that the two cannot "+
			"be told apart. The broker does not know whether it runs this one. Tell the operator of the platform.", o.Ref.ID)}
	o.Taken, o.Ref, o.Started, o.Result, o.Versions = true, Ref{}, false, nil, Versions{}
	return o
}
