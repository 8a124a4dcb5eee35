package keycloak

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Server is a running Keycloak. Its methods are actions of an administrator or a user.
type Server struct {
	mu    sync.Mutex
	admin string    // access token of the administrator
	until time.Time // when a new one is requested
}

// newServer returns a Server after it has allowed the broker's clients the legacy token exchange. Realm files cannot
// express that permission.
func newServer() (*Server, error) {
	s := &Server{}
	return s, s.allowLegacyExchange("platform", "eodispatch-api", "deployed-api")
}

// Object is a JSON object.
type Object = map[string]any

// send sends a request and returns the status, the header and the body of the response. It does not follow redirects.
func send(method, address string, header http.Header, body io.Reader) (int, http.Header, []byte, error) {
	request, err := http.NewRequest(method, address, body)
	if err != nil {
		return 0, nil, nil, err
	}
	request.Header = header
	response, err := direct.Do(request)
	if err != nil {
		return 0, nil, nil, err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	return response.StatusCode, response.Header, said, err
}

var direct = &http.Client{Timeout: 30 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// Token requests a token at a realm's token endpoint and returns the response. Any status other than 200 is an error.
func (s *Server) Token(realm string, form url.Values) (Object, error) {
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	status, _, body, err := send("POST", URL+"/realms/"+realm+"/protocol/openid-connect/token", header,
		strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	var answer Object
	if err := json.Unmarshal(body, &answer); err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("requesting a token of realm %s: status %d: %.300s", realm, status, body)
	}
	return answer, nil
}

// SignIn returns an access token that a user of the realm apex obtained through a public client.
func (s *Server) SignIn(user, client string) (string, error) {
	answer, err := s.Token("apex", url.Values{"grant_type": {"password"}, "client_id": {client}, "scope": {"openid"},
		"username": {user}, "password": {user + "-password"}})
	if err != nil {
		return "", err
	}
	return answer["access_token"].(string), nil
}

// Admin sends a request to the admin API and decodes the response into into, unless that is nil. The path is relative
// to /admin/realms/.
func (s *Server) Admin(method, path string, body, into any) error {
	token, err := s.adminToken()
	if err != nil {
		return err
	}
	sent, err := json.Marshal(body)
	if err != nil {
		return err
	}
	header := http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + token}}
	status, _, said, err := send(method, URL+"/admin/realms/"+path, header, bytes.NewReader(sent))
	switch {
	case err != nil:
		return err
	case status >= 300:
		return fmt.Errorf("%s %s: status %d: %.300s", method, path, status, said)
	case into == nil:
		return nil
	}
	return json.Unmarshal(said, into)
}

// adminToken returns an access token of the administrator, which is at most 30 s old.
func (s *Server) adminToken() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.until) {
		return s.admin, nil
	}
	answer, err := s.Token("master", url.Values{"grant_type": {"password"}, "client_id": {"admin-cli"},
		"username": {"admin"}, "password": {"admin"}})
	if err != nil {
		return "", err
	}
	s.admin, s.until = answer["access_token"].(string), time.Now().Add(30*time.Second)
	return s.admin, nil
}

// change reads the representation of a resource of the admin API, changes it and writes it back.
func (s *Server) change(path string, change func(Object)) error {
	var is Object
	if err := s.Admin("GET", path, nil, &is); err != nil {
		return err
	}
	change(is)
	return s.Admin("PUT", path, is, nil)
}

// Provider changes the configuration of an identity provider of the realm apex. It sets "enabled" and "storeToken" at
// the top level of the representation, and all other settings in its "config".
func (s *Server) Provider(alias string, config Object) error {
	return s.change("apex/identity-provider/instances/"+alias, func(is Object) {
		for name, value := range config {
			if name == "enabled" || name == "storeToken" {
				is[name] = value
				continue
			}
			is["config"].(Object)[name] = value
		}
	})
}

// Client changes the given attributes and top-level settings of a client of the realm apex.
func (s *Server) Client(client string, attributes, settings Object) error {
	id, err := s.id("apex", "clients", "clientId", client)
	if err != nil {
		return err
	}
	return s.change("apex/clients/"+id, func(is Object) {
		maps.Copy(is, settings)
		maps.Copy(is["attributes"].(Object), attributes)
	})
}

// Realm changes the given settings of a realm.
func (s *Server) Realm(realm string, settings Object) error {
	return s.Admin("PUT", realm, settings, nil)
}

// id returns the id of the object of a realm whose field by has the given name. Users have names in "username", clients
// in "clientId".
func (s *Server) id(realm, kind, by, name string) (string, error) {
	var found []Object
	query := url.Values{by: {name}, "exact": {"true"}}
	if err := s.Admin("GET", realm+"/"+kind+"?"+query.Encode(), nil, &found); err != nil {
		return "", err
	}
	for _, one := range found {
		if one[by] == name {
			return one["id"].(string), nil
		}
	}
	return "", fmt.Errorf("realm %s: no %s with the name %q", realm, kind, name)
}

// LogOut ends all sessions of a user. For a user of the realm platform, this invalidates the token that apex stores.
func (s *Server) LogOut(realm, user string) error { return s.user(realm, user, "POST", "/logout", nil) }

// Enable enables or disables a user.
func (s *Server) Enable(realm, user string, on bool) error {
	return s.user(realm, user, "PUT", "", Object{"enabled": on})
}

// Unlink removes a user's link to the identity provider alias of the realm.
func (s *Server) Unlink(realm, user, alias string) error {
	return s.user(realm, user, "DELETE", "/federated-identity/"+alias, nil)
}

// LinkByAdmin links a user of a realm to a user of another realm, as an administrator does: no token is stored.
func (s *Server) LinkByAdmin(realm, user, alias, other, otherUser string) error {
	id, err := s.id(other, "users", "username", otherUser)
	if err != nil {
		return err
	}
	return s.user(realm, user, "POST", "/federated-identity/"+alias, Object{"identityProvider": alias, "userId": id,
		"userName": otherUser})
}

// user sends a request to the admin API. The path is relative to the user's resource.
func (s *Server) user(realm, user, method, path string, body any) error {
	id, err := s.id(realm, "users", "username", user)
	if err != nil {
		return err
	}
	return s.Admin(method, realm+"/users/"+id+path, body, nil)
}

// AddUser creates a user of a realm with the password NAME-password.
func (s *Server) AddUser(realm, name string) error {
	return s.Admin("POST", realm+"/users", Object{"username": name, "email": name + "@example.test",
		"emailVerified": true, "firstName": name, "lastName": "X", "enabled": true,
		"credentials": []Object{{"type": "password", "value": name + "-password", "temporary": false}}}, nil)
}

// allowLegacyExchange allows clients of the realm apex to get tokens of an identity provider by the legacy token
// exchange, which names the provider in requested_issuer.
func (s *Server) allowLegacyExchange(alias string, clients ...string) error {
	var permissions struct{ ScopePermissions map[string]string }
	err := s.Admin("PUT", "apex/identity-provider/instances/"+alias+"/management/permissions", Object{"enabled": true},
		&permissions)
	if err != nil {
		return err
	}
	management, err := s.id("apex", "clients", "clientId", "realm-management")
	if err != nil {
		return err
	}
	var brokers []string
	for _, name := range clients {
		id, err := s.id("apex", "clients", "clientId", name)
		if err != nil {
			return err
		}
		brokers = append(brokers, id)
	}
	server := "apex/clients/" + management + "/authz/resource-server"
	var policy Object
	err = s.Admin("POST", server+"/policy/client", Object{"name": "who may use " + alias, "logic": "POSITIVE",
		"clients": brokers}, &policy)
	if err != nil {
		return err
	}
	permission := permissions.ScopePermissions["token-exchange"]
	if permission == "" {
		return errors.New("the response of Keycloak contains no permission token-exchange")
	}
	return s.change(server+"/permission/scope/"+permission, func(is Object) { is["policies"] = []any{policy["id"]} })
}
