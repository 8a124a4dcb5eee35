package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// checkTags reports keys below a path whose values are not as the tags of their fields require.
func (r *reader) checkTags(c *Config, v reflect.Value, path string) {
	for _, f := range fields(v.Type()) {
		r.checkTag(c, v.FieldByIndex(f.Index), join(path, f.key), f)
	}
}

func (r *reader) checkTag(c *Config, v reflect.Value, key string, f field) {
	check, required, least := f.Tag.Get("check"), f.Tag.Get("require"), f.Tag.Get("least")
	switch {
	case r.failed(key):
	case v.Kind() == reflect.Pointer && !v.IsNil():
		r.checkTag(c, v.Elem(), key, f)
	case v.Kind() == reflect.Struct:
		r.checkTags(c, v, key)
	case v.Type() == typeOfTexts && slices.Contains(v.Interface().([]string), "") && !r.failedBelow(key):
		r.failAt(key, "must not contain an empty text")
	case v.Kind() == reflect.Slice && v.Type() != typeOfJSON:
		for i := range v.Len() {
			r.checkTag(c, v.Index(i), fmt.Sprintf("%s[%d]", key, i), f)
		}
	case required != "" && v.IsZero():
		r.failAt(key, "is missing: %s", required)
	case check != "" && !v.IsZero():
		if err := checks[check](v.String(), c.Development); err != nil {
			r.failAt(key, "%v", err)
		}
	case least != "" && !v.IsZero():
		smallest := reflect.New(v.Type()).Elem()
		if r.readScalar(scalar(least), smallest, key, f); v.Int() < smallest.Int() {
			r.failAt(key, "write %s or more", least)
		}
	}
}

// checks are what the tag check names: tests of a text, whose errors say what to write.
var checks = map[string]func(text string, development bool) error{
	"url":    checkURL,
	"server": checkServer,
	"tiles":  checkTiles,
	"expression": func(text string, _ bool) error {
		if _, err := regexp.Compile(text); err != nil {
			return fmt.Errorf("is not a regular expression: %v", err)
		}
		return nil
	},
	"address": only(listenable, "write HOST:PORT, for example 0.0.0.0:8080"),
	"private": only(func(text string) bool { return text == TelemetryOff || listenable(text) },
		"write HOST:PORT, for example 127.0.0.1:9090, or off"),
	"network": only(func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && !p.Addr().Is4In6()
	}, "write a network such as 10.0.0.0/8 or fd00::/8"),
	"host": only(func(text string) bool { return !strings.ContainsAny(text, "/ ?#@") },
		"write a host without scheme and path: raw.githubusercontent.com"),
	"origin": only(func(text string) bool { return text == "*" || anyPort.MatchString(text) || hasNoPath(text) },
		"write SCHEME://HOST[:PORT] without a path, http://localhost:*, or *"),
	"receiver": only(func(text string) bool { return hasNoPath(text) && checkURL(text, true) == nil },
		"write SCHEME://HOST[:PORT] without a path: http://receiver.internal:8080"),
	"name": only(regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`).MatchString,
		"use letters, digits, dots, dashes and underscores, 100 at most, and no slash"),
	// the catalogue accepts more in records
	"service": only(regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@~-]{0,99}$`).MatchString,
		"write the id of a service: letters, digits and . _ : @ ~ -, 100 at most"),
}

func only(good func(string) bool, instead string) func(string, bool) error {
	return func(text string, _ bool) error {
		if !good(text) {
			return errors.New(instead)
		}
		return nil
	}
}

// anyPort matches the origins of all servers on the user's own machine.
var anyPort = regexp.MustCompile(`^https?://(localhost|127\.0\.0\.1):\*$`)

// hasNoPath reports whether a text is a scheme and a host.
func hasNoPath(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && u.Scheme+"://"+u.Host == text
}

// checkServer checks the URL of a server that is compared with those that requests name.
func checkServer(text string, development bool) error {
	_, err := dispatch.ParseAddress(text)
	return cmp.Or(checkURL(text, development), err)
}

// checkTiles checks the address of tiles, which browsers load.
func checkTiles(text string, development bool) error {
	for _, part := range []string{"{z}", "{x}", "{y}"} {
		if !strings.Contains(text, part) {
			return errors.New("must contain {z}, {x} and {y}, for example https://tiles.example.org/{z}/{x}/{y}.png")
		}
	}
	return checkURL(text, development)
}
