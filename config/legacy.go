package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eodispatch/eodispatch/dispatch"
)

// addLegacy fills in keys that the file does not set from the variables of the service that this one replaces, so that
// a deployment can switch by changing its image.
func (r *reader) addLegacy() {
	r.addTagged(reflect.TypeFor[Config](), "")
	r.addIssuer()
	if environment, set := r.env.lookup("APP_ENV"); set {
		r.add("APP_ENV", "log", "format", scalar(logFormatOf(environment)))
	}
	if text, set := r.env.lookup("BACKENDS"); set && member(r.root, "platforms") == nil {
		r.add("BACKENDS", "", "platforms", r.backends(text))
	}
}

// addTagged fills in the keys of a section, at the top also those of all sections, that have a tag variable.
func (r *reader) addTagged(schema reflect.Type, section string) {
	for _, f := range fields(schema) {
		name := f.Tag.Get("variable")
		r.replaced[join(section, f.key)] = name
		if text, set := r.env.lookup(name); set {
			r.add(name, section, f.key, written(text, f.Type))
		} else if section == "" && f.Type.Kind() == reflect.Struct {
			r.addTagged(f.Type, f.key)
		}
	}
}

// logFormatOf returns the format of the log in an environment: JSON in production, text in others.
func logFormatOf(environment string) string {
	if environment == "production" {
		return "json"
	}
	return "text"
}

const (
	// imageListen is the variable by which the image of the program says where it listens unless a file or a variable
	// does.
	imageListen = prefix + "_DEFAULT_LISTEN"
	// deployedListen is where the replaced service listens, which is what its compose files and charts expect.
	deployedListen = "0.0.0.0:8000"
	// knativePrivate is the private listener's address on Knative unless one is configured. Knative's own proxy, which
	// shares the loopback interface, needs port 9090, and does not start without it.
	knativePrivate = "127.0.0.1:9464"
)

// addDefaults sets the keys whose default depends on where the program runs and on what configures it, unless the file
// or a variable of their own sets them.
func (r *reader) addDefaults() {
	if r.deployed() {
		if port, set := r.env.lookup("PORT"); set {
			r.add("PORT", "", "listen", scalar(":"+port))
		}
		r.add("KEYCLOAK_HOST", "", "listen", scalar(deployedListen))
		r.add("KEYCLOAK_HOST", "compat", "submitted_as_created", scalar("true"))
		r.add("KEYCLOAK_HOST", "compat", "object_as_string", scalar("true"))
	}
	r.addText(imageListen, "", "listen")
}

// deployed reports whether the variables of the replaced service configure the broker: its issuer or its platforms.
func (r *reader) deployed() bool {
	if identity := member(r.root, "identity"); identity != nil && identity.Kind == yaml.MappingNode {
		if issuer := member(identity, "issuer"); issuer != nil && r.origin[issuer] == "KEYCLOAK_HOST" {
			return true
		}
	}
	platforms := member(r.root, "platforms")
	return platforms != nil && r.origin[platforms] == "BACKENDS"
}

// settingName returns what an operator sets for a key: the key itself, or its variable if the variables of the replaced
// service configure the broker.
func (r *reader) settingName(key string) string {
	if !r.deployed() {
		return key
	}
	if name := r.replaced[key]; name != "" {
		return name
	}
	return variableOf(key)
}

// variableOf returns the variable that sets a key.
func variableOf(key string) string {
	return prefix + "_" + strings.ToUpper(strings.NewReplacer("[", "_", "]", "", ".", "_").Replace(key))
}

// obeyKnative follows Knative, on which the chart of the replaced service runs its program: PORT is where requests
// arrive, whatever a file or another variable sets.
func (r *reader) obeyKnative() {
	if _, on := r.env.lookup("K_SERVICE"); !on {
		return
	}
	if port, set := r.env.lookup("PORT"); set && r.root.Kind == yaml.MappingNode {
		put(r.root, "listen", r.mark(scalar(":"+port), "PORT"))
	}
	r.add("K_SERVICE", "telemetry", "listen", scalar(knativePrivate))
}

func (r *reader) addText(variable, section, key string) {
	if text, set := r.env.lookup(variable); set {
		r.add(variable, section, key, scalar(text))
	}
}

// add sets a key unless the file sets it.
func (r *reader) add(variable, section, key string, value *yaml.Node) {
	mapping := r.root
	if section != "" {
		if have := member(r.root, section); have != nil && have.Kind != yaml.MappingNode && !isNull(have) {
			return // the reader reports the fault
		}
		mapping = r.child(r.root, section, yaml.MappingNode)
	}
	if member(mapping, key) == nil {
		put(mapping, key, r.mark(value, variable))
	}
}

func (r *reader) addIssuer() {
	host, hasHost := r.env.lookup("KEYCLOAK_HOST")
	realm, hasRealm := r.env.lookup("KEYCLOAK_REALM")
	if !hasHost || !hasRealm {
		return
	}
	if !strings.Contains(host, "://") {
		host = "https://" + host
	}
	r.add("KEYCLOAK_HOST", "identity", "issuer", scalar(strings.TrimRight(host, "/")+"/realms/"+url.PathEscape(realm)))
}

// backend is one value of BACKENDS.
type backend struct {
	AuthMethod        string  `json:"auth_method"`
	ClientCredentials *string `json:"client_credentials"`
	TokenProvider     *string `json:"token_provider"`
	TokenPrefix       *string `json:"token_prefix"`
}

// backends converts BACKENDS to a list of platforms without a protocol.
func (r *reader) backends(text string) *yaml.Node {
	given := map[string]backend{}
	list := sequence()
	r.mark(list, "BACKENDS")
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	if err := decoder.Decode(&given); err != nil {
		r.fail(list, "", `write JSON: {"URL": {"auth_method": "USER_CREDENTIALS", …}} (%s)`, jsonFault(err))
		return list
	}
	for _, address := range slices.Sorted(maps.Keys(given)) {
		platform, err := given[address].platform(address)
		if err != nil {
			r.fail(list, "", "%s: %v", address, err)
			continue
		}
		list.Content = append(list.Content, platform)
	}
	return list
}

// jsonFault describes a JSON fault without quoting the text, which may contain secrets.
func jsonFault(err error) string {
	switch e := err.(type) {
	case *json.SyntaxError:
		return fmt.Sprintf("not JSON at byte %d", e.Offset)
	case *json.UnmarshalTypeError:
		return fmt.Sprintf("wrong type at byte %d", e.Offset)
	}
	return "the JSON is not complete"
}

func (b backend) platform(address string) (*yaml.Node, error) {
	p := newMapping()
	put(p, "name", scalar(nameFor(address)))
	put(p, "endpoint", scalar(absolute(address)))
	if b.TokenPrefix != nil && *b.TokenPrefix != "" {
		put(p, "token_prefix", scalar(*b.TokenPrefix))
	}
	switch b.AuthMethod {
	case "", "USER_CREDENTIALS":
		if b.TokenProvider == nil || *b.TokenProvider == "" {
			return nil, fmt.Errorf("token_provider is missing: write the alias of the platform's identity provider")
		}
		exchange := newMapping()
		put(exchange, "driver", scalar(KeycloakRequestedIssuer))
		put(exchange, "alias", scalar(*b.TokenProvider))
		put(p, "access", scalar(string(dispatch.AccessUser)))
		put(p, "exchange", exchange)
	case "CLIENT_CREDENTIALS":
		account, err := b.serviceAccount()
		if err != nil {
			return nil, err
		}
		put(p, "access", scalar(string(dispatch.AccessShared)))
		put(p, "service_account", account)
	default:
		return nil, fmt.Errorf("auth_method is neither USER_CREDENTIALS nor CLIENT_CREDENTIALS")
	}
	return p, nil
}

func (b backend) serviceAccount() (*yaml.Node, error) {
	var parts []string
	if b.ClientCredentials != nil {
		parts = strings.SplitN(*b.ClientCredentials, "/", 3)
	}
	if len(parts) != 3 || slices.Contains(parts, "") {
		return nil, fmt.Errorf("client_credentials is not PROVIDER/CLIENT_ID/CLIENT_SECRET")
	}
	account := newMapping()
	put(account, "provider", scalar(parts[0]))
	put(account, "client_id", scalar(parts[1]))
	put(account, "client_secret", scalar(parts[2]))
	return account, nil
}

// absolute adds https:// to an address without a scheme.
func absolute(address string) string {
	if strings.Contains(address, "://") {
		return address
	}
	return "https://" + address
}

// nameFor returns a platform's name from the host, port and path of its address.
func nameFor(address string) string {
	u, err := url.Parse(absolute(address))
	if err != nil {
		return address
	}
	return strings.Trim(strings.NewReplacer("/", "-", ":", "-").Replace(u.Host+u.Path), "-")
}
