package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/store"
)

// failsLong is for how long messages to a hook must have failed to be worth a note: receivers restart.
const failsLong = time.Hour

// sentLate is how late messages must be to be worth a note.
const sentLate = time.Minute

// hooksChecks lists the checks of what hooks need: the mail server, and the receivers that may have private addresses.
func hooksChecks(settings *config.Config) (checks []check) {
	if sender, err := settings.Hooks.Mail.Sender(); sender != nil || err != nil {
		checks = append(checks, check{name: "mail server " + settings.Hooks.Mail.Server,
			advice: "check `hooks.mail`: the address, the encryption, the name and the password",
			ask: withoutUnproven(func(ctx context.Context) error {
				if err != nil {
					return err
				}
				return sender.Check(ctx)
			})})
	}
	for _, origin := range settings.Hooks.Trusted {
		checks = append(checks, check{name: "receiver " + origin,
			advice: "`hooks.trusted` should list only receivers that exist",
			ask:    func(ctx context.Context) (string, error) { return askReceiver(ctx, origin) }})
	}
	return checks
}

// askReceiver connects to a receiver. One whose name has no address is a fault; one that does not answer may be down
// for a while.
func askReceiver(ctx context.Context, origin string) (unproven string, err error) {
	u, err := url.Parse(origin)
	if err != nil {
		return "", err
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	c, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if nameless, ok := errors.AsType[*net.DNSError](err); ok && nameless.IsNotFound {
		return "", err
	}
	if err != nil {
		return "nothing answers there", nil
	}
	return "", c.Close()
}

// hooksInNeed returns notes on hooks whose messages do not arrive.
func hooksInNeed(ctx context.Context, db *store.Store) (notes []string) {
	found, err := db.HookTroubles(ctx, failsLong)
	if err != nil {
		return []string{"cannot read whether messages to hooks arrive: " + explained(err)}
	}
	if found.Failing > 0 {
		notes = append(notes,
			fmt.Sprintf("messages to %d hooks of users have not arrived for more than %s, the oldest for %s; after "+
				"a day they are dropped. Owners see the reason at the hook",
				found.Failing, inWords(failsLong), inWords(found.Oldest)))
	}
	if found.Lag > sentLate {
		notes = append(notes,
			fmt.Sprintf("messages to hooks have been due for %s, but no process sends them: look for `due "+
				"deliveries` and `sending to a hook` in the log of the broker", inWords(found.Lag)))
	}
	if found.Gone > 0 {
		notes = append(notes, fmt.Sprintf("%d hooks of users are off, because their receivers answered 410",
			found.Gone))
	}
	return notes
}

// inWords writes a duration of hours or minutes.
func inWords(d time.Duration) string {
	if d < time.Hour {
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%.0f h", d.Hours())
}
