package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes, written as 512, 64KiB, 10MiB, 1GiB, or with KB, MB, GB in thousands.
type Size int64

const largestSize = 1 << 50 // bytes

var units = []struct {
	name  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1}}

func (s *Size) UnmarshalText(text []byte) error {
	for _, u := range units {
		digits, ok := strings.CutSuffix(string(text), u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n <= 0 || n > largestSize/u.bytes {
			break
		}
		*s = Size(n * u.bytes)
		return nil
	}
	return errors.New("write a size such as 512KiB or 10MiB")
}

// Pace is the time between two requests; 0: any. It is written as a rate: 10/s, 100/m, 1000/h.
type Pace time.Duration

var periods = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

func (p *Pace) UnmarshalText(text []byte) error {
	count, period, _ := strings.Cut(string(text), "/")
	n, err := strconv.ParseFloat(count, 64)
	per, known := periods[period]
	if err != nil || !known || !(n >= 0.001 && n <= 1e6) {
		return errors.New("write a rate such as 10/s, 100/m or 1000/h")
	}
	*p = Pace(float64(per) / n)
	return nil
}

// checkURL returns an error unless address is the absolute URL of a server.
func checkURL(text string, development bool) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return errors.New("write an absolute URL such as https://openeo.example.org")
	case u.User != nil:
		return errors.New("the URL must not contain a user name and password")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("remove the query or fragment (everything after ? or #)")
	case u.Scheme == "http" && !development:
		return errors.New("use https; http is for development only (development: true, or EODISPATCH_DEVELOPMENT=true)")
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("use https instead of %s", u.Scheme)
	}
	return nil
}

// plainURL returns a base URL in one spelling, with the scheme and host in lower case and without a slash at its end,
// so that paths can be appended. It returns what is no URL unchanged.
func plainURL(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return base
	}
	u.Host = strings.ToLower(u.Host) // url.Parse has changed the scheme to lower case
	return strings.TrimRight(u.String(), "/")
}

// database returns the address of a database as sqlite:PATH or postgres://…. It also accepts the forms of SQLAlchemy
// (https://docs.sqlalchemy.org/en/20/core/engines.html#database-urls).
func database(text string) (string, error) {
	scheme, rest, found := strings.Cut(text, ":")
	dialect, _, _ := strings.Cut(scheme, "+")
	switch {
	case !found:
		return "", errors.New("write sqlite:FILE or postgres://USER:PASSWORD@HOST/NAME")
	case dialect == "postgres" || dialect == "postgresql":
		u, err := url.Parse("postgres:" + rest)
		if err != nil || !strings.HasPrefix(rest, "//") || u.Path == "" || u.Path == "/" {
			return "", errors.New("write postgres://USER:PASSWORD@HOST/NAME")
		}
		return toPrimary(u).String(), nil
	case dialect == "mysql" || dialect == "mariadb":
		return "", errors.New(
			"MySQL and MariaDB are not supported: use PostgreSQL (postgres://USER:PASSWORD@HOST/NAME), or " +
				"sqlite:FILE; `eodispatch import --from env:NAME` takes over the jobs of the APEx Dispatch API's " +
				"database")
	case dialect == "sqlite":
		path := strings.TrimPrefix(rest, "///")
		if path == "" || strings.HasPrefix(path, "//") {
			return "", errors.New("name a file: sqlite:eodispatch.db")
		}
		return "sqlite:" + path, nil
	}
	// text may be a secret
	return "", errors.New("this kind of database is not known: write sqlite:FILE or postgres://USER:PASSWORD@HOST/NAME")
}

// toPrimary returns the address of a database with the option to connect to the server that can be written, where the
// address lists several: without it the first that answers, perhaps a standby, is used.
func toPrimary(u *url.URL) *url.URL {
	q := u.Query()
	if len(hostsOf(u)) < 2 || q.Has("target_session_attrs") {
		return u
	}
	to := *u
	to.RawQuery = strings.TrimPrefix(u.RawQuery+"&target_session_attrs=read-write", "&")
	return &to
}

// hostsOf returns the hosts that the address of a database lists, after the @ or in the query, as libpq accepts them.
func hostsOf(u *url.URL) (hosts []string) {
	for part := range strings.SplitSeq(u.Host, ",") {
		if host, _, err := net.SplitHostPort(part); err == nil {
			part = host
		}
		hosts = append(hosts, strings.Trim(part, "[]"))
	}
	if named := u.Query().Get("host"); named != "" {
		hosts = strings.Split(named, ",")
	}
	return hosts
}

// carriesPassword reports whether the address of a database contains a password.
func carriesPassword(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	_, set := u.User.Password()
	return set || u.Query().Has("password")
}
