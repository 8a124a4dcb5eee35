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
