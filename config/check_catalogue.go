package config

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// checkCatalogue checks the sources of services, and the services of the configuration.
func (r *reader) checkCatalogue(c *Config) {
	sources := claims{}
	for i, source := range c.Catalogue.Sources {
		key := fmt.Sprintf("catalogue.sources[%d]", i)
		if r.require(key, source, "write a folder or a URL") {
			r.claim(sources, source, key, "this source")
		}
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
}

// checkSource checks the URL of a source, which, unlike that of a platform, may have a query.
func (r *reader) checkSource(c *Config, key, source string) {
	u, err := url.Parse(source)
	if err != nil {
		r.failAt(key, "write a folder or an absolute URL")
		return
	}
	u.RawQuery, u.ForceQuery = "", false
	r.checkURL(c, key, u.String())
}

// serviceID matches the ids of services; the catalogue accepts more of them in records.
var serviceID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@~-]{0,99}$`)

func (r *reader) checkService(s Service, key string, platforms []string) {
	if r.failed(key) {
		return
	}
	if r.require(key+".id", s.ID, "name the service") && !serviceID.MatchString(s.ID) {
		r.failAt(key+".id", "use letters, digits and . _ : @ ~ -, 100 at most")
	}
	r.require(key+".application", s.Application, "write the URL or id of a process")
	if r.require(key+".platform", s.Platform, "write the name of a platform") && !slices.Contains(platforms, s.Platform) {
		r.failAt(key+".platform", "is not the name of a platform%s", closestWord(s.Platform, platforms))
	}
}
