package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/config"
)

// healthWithin limits the question of the command health.
const healthWithin = 5 * time.Second

func healthCommandLine(c console) *cobra.Command {
	return configured(c, &cobra.Command{Use: "health", Short: "Check whether the broker on this machine is ready",
		Args: cobra.NoArgs,
		Long: "Check at its private listener whether the broker on this machine is ready: the exit code is 0 if it " +
			"is. For health checks of containers.",
		Example: "  eodispatch health --config broker.yaml",
	}, func(settings *config.Config, _ []string) error { return printReadiness(c, settings) })
}

// printReadiness prints what /ready says.
func printReadiness(c console, settings *config.Config) error {
	if settings.Telemetry.Listen == config.TelemetryOff {
		return config.Faults{{Where: "health", Key: "telemetry.listen", Text: "is off: there is nothing to ask"}}
	}
	ctx, cancel := context.WithTimeout(context.Background(), healthWithin)
	defer cancel()
	reason, ready, err := askReady(ctx, settings.Telemetry.Listen)
	switch {
	case err != nil:
		fmt.Fprintln(c.err, "not ready:", err)
		return errSaid
	case !ready:
		fmt.Fprintln(c.err, reason)
		return errSaid
	}
	_, err = fmt.Fprintln(c.out, reason)
	return err
}

// direct requests without the proxy that the environment may name.
var direct = http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// askReady returns what /ready of a private listener on this machine says, and whether that is yes.
func askReady(ctx context.Context, listen string) (reason string, ready bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+reachable(listen)+"/ready", nil)
	if err != nil {
		return "", false, err
	}
	response, err := direct.Do(request)
	if err != nil {
		return "", false, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	return strings.TrimSpace(string(text)), response.StatusCode == http.StatusOK, err
}

// reachable returns an address at which a listener on this machine is reached: one on all interfaces is on the loopback
// interface, too.
func reachable(listen string) string {
	host, port, _ := net.SplitHostPort(listen) // was checked with the settings
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}
