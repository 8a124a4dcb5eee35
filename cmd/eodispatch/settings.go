package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eodispatch/eodispatch/config"
)

// configFlags holds the flags of commands that read a configuration.
type configFlags struct {
	Config string
}

func (s *configFlags) flags(command *cobra.Command) {
	command.Flags().StringVarP(&s.Config, "config", "c", "",
		"configuration, a YAML `FILE`; default: $EODISPATCH_CONFIG. Variables EODISPATCH_… take precedence")
}

// configured makes a command read the settings, with which it calls run.
func configured(c console, command *cobra.Command, run func(*config.Config, []string) error) *cobra.Command {
	var s configFlags
	s.flags(command)
	command.RunE = func(_ *cobra.Command, args []string) error {
		settings, err := s.load(c)
		if err != nil {
			return err
		}
		return run(settings, args)
	}
	return command
}

// minimalConfiguration is the shortest file that the command serve accepts.
const minimalConfiguration = `identity:
  issuer: https://auth.example.org/realms/apex # the identity provider whose tokens users bring
  audience: [eodispatch-api]                   # what the tokens' aud must contain
platforms:
  - name: my-platform
    protocol: openeo                           # or ogc-api-processes
    endpoint: https://openeo.example.org
    access: open                               # or user, shared: see docs/configuration.md
`

// load reads the settings, of which some name servers that are reached by TLS. If nothing is set at all, the error also
// shows a minimal file.
func (s configFlags) load(c console) (*config.Config, error) {
	trustOwnRoots()
	for _, variable := range c.environ {
		if file, ok := strings.CutPrefix(variable, "EODISPATCH_CONFIG="); ok && s.Config == "" {
			s.Config = file
		}
	}
	settings, err := config.Load(s.Config, c.environ)
	faults, _ := errors.AsType[config.Faults](err)
	if s.Config == "" && lacksKey(faults, "identity.issuer") && lacksKey(faults, "platforms") {
		return nil, fmt.Errorf("%w\n\n"+
			"There is no configuration. Name a file with --config FILE or EODISPATCH_CONFIG. A minimal file:\n\n%s",
			faults, strings.TrimSpace(minimalConfiguration))
	}
	return settings, err
}

// lacksKey reports whether faults contains a fault of the given key.
func lacksKey(faults config.Faults, key string) bool {
	return slices.ContainsFunc(faults, func(f config.Fault) bool { return f.Key == key })
}
