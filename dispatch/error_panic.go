package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// RecoverAsError turns a panic into an Internal error and logs it with its stack. Defer it directly, not from another
// deferred function.
func RecoverAsError(ctx context.Context, log *slog.Logger, op string, err *error) {
	r := recover()
	if r == nil {
		return
	}
	log.ErrorContext(ctx, "panic", "operation", op, "error", fmt.Sprint(r), "stack", string(debug.Stack()))
	*err = &Error{Kind: Internal, Op: op, Err: fmt.Errorf("panic: %v", r)}
}
