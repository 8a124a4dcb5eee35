package config

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eodispatch/eodispatch/dispatch"
)

// checkCatalogue checks the sources of services, and the services of the configuration.
func (r *reader) checkCatalogue(c *Config) {
	sources := claims{}
	for i, source := range c.Catalogue.Sources {
		key := fmt.Sprintf("catalogue.sources[%d]", i)
		r.claim(sources, source, key, "this source")
		if strings.Contains(source, "://") {
			r.checkSource(c, key, source)
		}
	}
	var platforms []string
	for _, p := range expand(c.Platforms) {
		platforms = append(platforms, p.Name)
	}
	ids := claims{}
	if c.OGCAPI.Echo {
		ids[EchoName] = "ogcapi.echo"
		if slices.Contains(platforms, EchoName) {
			r.failAt("ogcapi.echo", "needs the name %s, which a platform has: give the platform another name", EchoName)
		}
	}
	for i, s := range c.Services {
		key := fmt.Sprintf("services[%d]", i)
		r.checkService(s, key, platforms)
		r.claim(ids, s.ID, key+".id", "the id "+s.ID)
	}
	for i, rule := range c.ServiceRules {
		r.checkRule(rule, fmt.Sprintf("service_rules[%d]", i), platforms)
	}
}

// checkRule checks a rule for services. Whether the catalogue has their ids is known only when it was read; doctor
// checks that.
func (r *reader) checkRule(rule ServiceRule, key string, platforms []string) {
	if r.failed(key) {
		return
	}
	if len(rule.Services) == 0 && rule.Platform == "" && rule.Application == "" {
		r.failAt(key, "name the services: by services, platform or application")
	}
	r.checkPlacement(rule.Platform, key, platforms)
	if utf8.RuneCountInString(rule.Format) > dispatch.LongestFormat {
		r.failAt(key+".format", "write at most %d characters: the name of a format that the services offer",
			dispatch.LongestFormat)
	}
	if rule.MaxDuration > 0 && rule.MaxDuration%time.Second != 0 {
		r.failAt(key+".max_duration", "write whole seconds")
	}
	if rule.BudgetUnit != "" && rule.Budget == 0 {
		r.failAt(key+".budget_unit", "is the unit of budget, which is missing")
	}
	r.checkRuleOptions(rule.Options, key)
	if u := rule.Users; u != nil && (u.Claim == "" || len(u.AnyOf) == 0 || slices.Contains(u.AnyOf, "")) {
		r.failAt(key+".users",
			"set both claim and any_of: a claim of users' tokens, and the values of which it must have one")
	}
}

// checkRuleOptions refuses options that have a key of their own, and those of single requests.
func (r *reader) checkRuleOptions(options json.RawMessage, key string) {
	var given map[string]json.RawMessage
	_ = json.Unmarshal(options, &given) // absent, or an object
	for _, name := range []string{"max_duration", "budget"} {
		if given[name] != nil {
			r.failAt(key+".options", "write %s beside options, not in them", name)
		}
	}
	for _, name := range []string{"notify", "validate"} {
		if given[name] != nil {
			r.failAt(key+".options", "must not have %s, which only a request can set", name)
		}
	}
	if _, err := (dispatch.Request{Options: options}).ParseOptions(); err != nil {
		r.failAt(key+".options", "%s", strings.TrimSuffix(dispatch.TextFor(err), "."))
	}
}

// checkSource checks the URL of a source, which, unlike that of a platform, may have a query.
func (r *reader) checkSource(c *Config, key, source string) {
	u, err := url.Parse(source)
	if err != nil {
		r.failAt(key, "write a folder or an absolute URL")
		return
	}
	u.RawQuery, u.ForceQuery = "", false
	if err := checkURL(u.String(), c.Development); err != nil {
		r.failAt(key, "%v", err)
	}
}

func (r *reader) checkService(s Service, key string, platforms []string) {
	if r.failed(key) {
		return
	}
	r.checkPlacement(s.Platform, key, platforms)
	if len(s.Also) >= dispatch.MostPlacements {
		r.failAt(key+".also", "name at most %d further platforms", dispatch.MostPlacements-1)
	}
	at := claims{s.Platform: key + ".platform"}
	for i, h := range s.Also {
		placement := fmt.Sprintf("%s.also[%d]", key, i)
		r.checkPlacement(h.Platform, placement, platforms)
		r.claim(at, h.Platform, placement+".platform", "the platform "+h.Platform)
	}
}

// checkPlacement checks the platform of a service, or of the services of a rule; "": none is named.
func (r *reader) checkPlacement(platform, key string, platforms []string) {
	if platform != "" && !slices.Contains(platforms, platform) {
		r.failAt(key+".platform", "is not the name of a platform%s", closestWord(platform, platforms))
	}
}
