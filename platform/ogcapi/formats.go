package ogcapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
	"github.com/eodispatch/eodispatch/platform/upstream"
)

var _ dispatch.Formatter = (*Platform)(nil)

// offered returns the offered media type that format means, by its name or as a media type, in the server's spelling;
// "" for none.
func offered(format string, media []string) string {
	for _, m := range media {
		if strings.EqualFold(m, format) {
			return m
		}
	}
	for _, m := range media {
		if dispatch.FormatName(m) == dispatch.FormatName(format) {
			return m
		}
	}
	return ""
}

// media returns the media types that the outputs of the process offer, sorted, each once.
func (d *description) media() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(d.outputs)) {
		all = append(all, d.outputs[name].media...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Formats returns the formats that the outputs of the service's process offer, as its description names them.
func (p *Platform) Formats(ctx context.Context, t dispatch.Token, s dispatch.Service) (shown []dispatch.OutputFormat,
	err error) {
	_, d, err := p.describe(ctx, t, s)
	if err != nil {
		return nil, err
	}
	taken := map[string]bool{}
	for _, m := range d.media() {
		f := dispatch.OutputFormat{Name: dispatch.FormatName(m), Title: upstream.Text(m)}
		if taken[f.Name] || strings.Contains(f.Name, "/") { // another of the same name, or one without a name
			f.Name = f.Title
		}
		taken[f.Name] = true
		shown = append(shown, f)
	}
	return shown, nil
}

// checkFormat refuses a format that the process does not offer, and returns a warning if it permits one that is not
// used. A process that names no media types may offer any. So may one that names JSON alone: its document can link
// files of any format, as those of Application Packages do. Clients of the APEx Dispatch API know four formats and have
// to name one, which that service does not use: where the process offers none of the four, each of them is permitted.
func (d *description) checkFormat(r dispatch.Request) (warning string, err error) {
	all := d.media()
	another := func(m string) bool { return dispatch.FormatName(m) != "json" }
	switch {
	case r.Format == "", offered(r.Format, all) != "", hasOption(r, "outputs"), !slices.ContainsFunc(all, another):
		return "", nil
	case d.leavesUnused(r.Format):
		return upstream.Text("The process offers other formats (" + strings.Join(all, ", ") +
			"), so that the format of the request is not used."), nil
	}
	return "", dispatch.InvalidBody("ogcapi.format", upstream.Text(fmt.Sprintf(
		"The process does not offer the output format %q. It offers: %s.", r.Format, strings.Join(all, ", "))),
		"format")
}

// leavesUnused reports whether a format is one of the usual ones while the process offers none of these.
func (d *description) leavesUnused(format string) bool {
	return dispatch.IsUsualFormat(format) && !slices.ContainsFunc(d.media(), dispatch.IsUsualFormat)
}

// hasOption reports whether the options of a request have a member.
func hasOption(r dispatch.Request, name string) bool {
	var options map[string]json.RawMessage
	return json.Unmarshal(r.PlatformOptions(), &options) == nil && options[name] != nil
}
