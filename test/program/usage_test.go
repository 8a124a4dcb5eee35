package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eodispatch/eodispatch/test/executable"
)

// runProgram runs the built program with only the given environment, and returns its exit code and its two outputs.
func runProgram(t *testing.T, environ []string, args ...string) (code int, out, errors string) {
	t.Helper()
	path, err := executable.Released()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	command := exec.CommandContext(t.Context(), path, args...)
	command.Dir, command.Env, command.Stdout, command.Stderr = t.TempDir(), environ, &stdout, &stderr
	if err := command.Run(); command.ProcessState == nil {
		t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

func TestProgram_PrintsItsVersion(t *testing.T) {
	t.Parallel()
	_, want, _ := runProgram(t, nil, "version")
	code, out, stderr := runProgram(t, nil, "--version")
	if code != exitDone || out != want || !strings.HasPrefix(out, "eodispatch ") || strings.Count(out, "\n") != 1 ||
		stderr != "" {
		t.Errorf("exit %d: %q, %q; version prints %q", code, out, stderr, want)
	}
}

func TestProgram_HelpPrintsWhatTheFlagPrints(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{"": "doctor", "serve": "--config FILE",
		"vault rotate": "Re-encrypt the vault"} {
		words := strings.Fields(command)
		_, flag, _ := runProgram(t, nil, append(words, "--help")...)
		code, out, stderr := runProgram(t, nil, append([]string{"help"}, words...)...)
		if code != exitDone || out != flag || !strings.Contains(out, want) || stderr != "" {
			t.Errorf("help %s: exit %d, %q is not in what it prints, or it differs from --help:\n%s%s\n--help:\n%s",
				command, code, want, out, stderr, flag)
		}
	}
}

// A usage error has two lines: the mistake, and what to do.
func TestProgram_ReportsUsageErrorsInTwoLines(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":       "eodispatch: a command is missing\nRun \"eodispatch --help\" for the valid arguments.\n",
		"juggle": "eodispatch: unknown command \"juggle\"\nRun \"eodispatch --help\" for the valid arguments.\n",
		"serv": "eodispatch: unknown command \"serv\", did you mean \"serve\"?\nRun \"eodispatch --help\" for " +
			"the valid arguments.\n",
		"serve --loudly": "eodispatch: unknown flag: --loudly\nRun \"eodispatch serve --help\" for the valid " +
			"arguments.\n",
		"operator hodl --config x": "eodispatch: unknown command \"hodl\", did you mean \"hold\"?\nRun \"eodispatch " +
			"operator --help\" for the valid arguments.\n",
		"vault dance": "eodispatch: unknown command \"dance\"\nRun \"eodispatch vault --help\" for the valid " +
			"arguments.\n",
		"help juggle": "eodispatch: unknown command \"juggle\"\nRun \"eodispatch --help\" for the valid arguments.\n",
		"show": "eodispatch: show: expected ID (0 given)\nRun \"eodispatch show --help\" for the valid " +
			"arguments.\n",
		"version 1": "eodispatch: version: expected no arguments (1 given)\nRun \"eodispatch version --help\" for " +
			"the valid arguments.\n",
		"doctor --timeout soon": "eodispatch: invalid argument \"soon\" for \"--timeout\" flag: time: invalid " +
			"duration \"soon\"\nRun \"eodispatch doctor --help\" for the valid arguments.\n",
	} {
		code, out, stderr := runProgram(t, nil, strings.Fields(args)...)
		if code != exitUsage || stderr != want || out != "" {
			t.Errorf("%q: exit %d:\n%s%s\nnot\n%s", args, code, out, stderr, want)
		}
	}
}

// Without any setting serve shows a minimal file, which the same program accepts.
func TestServe_WithoutSettingsPrintsAMinimalFile(t *testing.T) {
	t.Parallel()
	code, out, stderr := runProgram(t, nil, "serve")
	if code != exitUsage || out != "" {
		t.Errorf("exit %d, %q", code, out)
	}
	for _, want := range []string{"identity.issuer: is missing", "platforms: no platform is configured",
		"--config FILE", "EODISPATCH_CONFIG"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("%q is not in:\n%s", want, stderr)
		}
	}
	_, file, _ := strings.Cut(stderr, "A minimal file:\n\n")
	path := filepath.Join(t.TempDir(), "broker.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, stderr = runProgram(t, nil, "doctor", "--timeout", "1ns", "--config", path)
	if code != exitFailed || !strings.Contains(out, "\nok      configuration ") ||
		!strings.Contains(out, "platform my-platform (openeo, access open)") {
		t.Errorf("the printed file is not taken: exit %d:\n%s%s\nthe file:\n%s", code, out, stderr, file)
	}
	code, _, stderr = runProgram(t, []string{"EODISPATCH_IDENTITY_ISSUER=https://auth.example.org",
		"EODISPATCH_IDENTITY_AUDIENCE=a"}, "serve")
	if code != exitUsage || strings.Contains(stderr, "A minimal file") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("with one setting missing: exit %d:\n%s", code, stderr)
	}
}
