package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// Caught is deferred, itself and not from another function, where a panic must not end the process. It logs the panic with its
// stack and makes it an error, Internal.
func Caught(ctx context.Context, log *slog.Logger, op string, err *error) {
	r := recover()
	if r == nil {
		return
	}
	log.ErrorContext(ctx, "panic", "operation", op, "error", fmt.Sprint(r), "stack", string(debug.Stack()))
	*err = &Error{Kind: Internal, Op: op, Err: fmt.Errorf("panic: %v", r)}
}

// asked asks the platform. After a panic it is not known what became of the request, so each job is given that answer.
func (v *visit) asked(ctx context.Context, f flight) (answers []answer) {
	var err error
	defer func() {
		if err != nil {
			answers = f.failed(err)
		}
	}()
	defer Caught(ctx, v.broker.Log, "dispatch.visit: ask "+v.backend.Name, &err)
	return f.ask(ctx, f.token, f.jobs)
}

// failed is the answer to a step that gave none, for each of its jobs.
func (s step) failed(err error) (answers []answer) {
	for _, j := range s.jobs {
		o := Outcome{Asked: AskStatus, Attempt: j.Attempt, Turn: j.Turn, Ref: j.Ref, Panicked: true, Err: err}
		switch {
		case s.submit:
			o.Asked = AskSubmit
		case j.Phase == Ended && len(j.Strays) > 0:
			o.Asked, o.Ref = AskStray, j.Strays[0]
		case j.Phase == Creating:
			o.Asked = AskSearch
		}
		answers = append(answers, answer{j, o})
	}
	return answers
}
