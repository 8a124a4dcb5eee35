package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/catalogue"
	"github.com/eodispatch/eodispatch/config"
	"github.com/eodispatch/eodispatch/dispatch"
)

// policies returns the rules for services of a configuration that was checked. The ids of services are those of the
// catalogue when a request arrives.
func policies(rules []config.ServiceRule, offered *catalogue.Catalogue) (all []dispatch.Policy) {
	for _, rule := range rules {
		p := dispatch.Policy{Applies: ruleMatch(rule, offered), MaxDuration: rule.MaxDuration, Format: rule.Format,
			Budget: dispatch.Budget{Amount: float64(rule.Budget), Unit: rule.BudgetUnit}}
		_ = json.Unmarshal(rule.Options, &p.Options) // it was written as an object
		if u := rule.Users; u != nil {
			p.Entitled = func(ctx context.Context) bool { return call.In(ctx).Caller.Has(u.Claim, u.AnyOf) }
		}
		all = append(all, p)
	}
	return all
}

// ruleMatch returns whether a rule is about a service.
func ruleMatch(rule config.ServiceRule, offered *catalogue.Catalogue) func(string, dispatch.Service) bool {
	application := anyText(rule.Application)
	return func(platform string, s dispatch.Service) bool {
		if rule.Platform != "" && rule.Platform != platform || rule.Application != "" &&
			!application.MatchString(s.Application) {
			return false
		}
		return len(rule.Services) == 0 || slices.ContainsFunc(rule.Services, func(id string) bool {
			listed, _ := offered.Find(id)
			return slices.ContainsFunc(listed.Placements(), func(h catalogue.Placement) bool {
				return h.Platform == platform && h.Service.Application == s.Application &&
					h.Service.NamespaceAt(h.Label) == s.NamespaceAt(h.Label)
			})
		})
	}
}

// anyText returns the expression for a pattern in which * stands for any text.
func anyText(pattern string) *regexp.Regexp {
	return regexp.MustCompile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$")
}

// askRules checks that the catalogue has the services of the rules.
func askRules(ctx context.Context, settings *config.Config) error {
	offered := readServices(ctx, settings)
	var missing []string
	for i, rule := range settings.ServiceRules {
		for _, id := range rule.Services {
			if _, known := offered.Find(id); !known {
				missing = append(missing, fmt.Sprintf("service_rules[%d]: the catalogue has no service %s", i, id))
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s", strings.Join(missing, "; "))
	}
	return nil
}
