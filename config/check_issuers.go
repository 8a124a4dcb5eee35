package config

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/eodispatch/eodispatch/dispatch"
)

// finishIssuers checks the further issuers. Which tokens belong to whom must be certain, so that no issuer may be named
// twice.
func (r *reader) finishIssuers(c *Config) {
	taken := claims{c.Identity.Issuer: "identity.issuer"}
	for k := range c.Issuers {
		i, key := &c.Issuers[k], fmt.Sprintf("issuers[%d]", k)
		if r.failed(key) {
			continue
		}
		r.claim(taken, i.Issuer, key+".issuer", "this issuer")
		i.Audience = r.checkProvider(key, i.identity())
		if len(i.Platforms) == 0 && !r.failedBelow(key+".platforms") {
			r.failAt(key+".platforms", "is missing: list the platforms that users of this issuer may use")
		}
		r.finishIssuerPlatforms(c, i, key)
	}
}

func (r *reader) finishIssuerPlatforms(c *Config, i *Issuer, key string) {
	configured, names := map[string]Platform{}, []string{}
	for _, p := range expand(c.Platforms) {
		configured[p.Name], names = p, append(names, p.Name)
	}
	taken := claims{}
	for k := range i.Platforms {
		p, at := &i.Platforms[k], fmt.Sprintf("%s.platforms[%d]", key, k)
		if r.failed(at) || r.failed(at+".name") {
			continue
		}
		r.claim(taken, p.Name, at+".name", "this platform")
		if !slices.Contains(names, p.Name) {
			r.failAt(at+".name", "is not the name of a platform%s", closestWord(p.Name, names))
			continue
		}
		r.finishIssuerPlatform(i, p, configured[p.Name], key, at)
	}
}

// finishIssuerPlatform checks how the users of an issuer reach a platform, and sets the default of its issuer.
func (r *reader) finishIssuerPlatform(i *Issuer, p *IssuerPlatform, platform Platform, key, at string) {
	switch {
	case platform.Access != dispatch.AccessUser && p.Exchange != nil:
		r.failAt(at+".exchange", "is only for access: user, but that of the platform is %s: remove the key",
			platform.Access)
	case platform.Access != dispatch.AccessUser:
	default:
		p.Issuer = cmp.Or(p.Issuer, platform.Issuer)
		if p.Exchange != nil && p.Exchange.Driver == Passthrough {
			p.Issuer = cmp.Or(p.Issuer, i.Issuer)
		}
		r.checkExchange(&Platform{Exchange: p.Exchange, Issuer: p.Issuer}, at+".exchange", i.identity(), key)
	}
}
