package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// unservedFor is after what time without a sign of life no broker uses a database: each gives one a minute.
const unservedFor = 65 * time.Second

var errServed = errors.New("a broker is using this database: stop all brokers, and run this command again")

// checkUnattended returns nil once no broker can be using a database, and errServed if one gives a sign of life
// meanwhile. last returns when the last was given, and how long ago that is.
func checkUnattended(ctx context.Context, out io.Writer, last func(context.Context) (at time.Time, ago time.Duration,
	err error)) error {
	first, ago, err := last(ctx)
	if err != nil || first.IsZero() || ago >= unservedFor {
		return err
	}
	fmt.Fprintf(out, "a broker used this database %v ago; waiting to be sure that it has stopped\n",
		ago.Round(time.Second))
	for end := time.Now().Add(unservedFor - max(0, ago)); time.Now().Before(end); {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
		now, _, err := last(ctx)
		if err != nil {
			return err
		}
		if !now.Equal(first) {
			return errServed
		}
	}
	return nil
}

// allowsSeveral reports whether several brokers can use a database at once.
func allowsSeveral(database string) bool { return strings.HasPrefix(database, "postgres") }
