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

// Server is a running Keycloak. Its methods perform actions of an administrator or a user.
type Server struct {
	mu    sync.Mutex
	admin string // an administrator's token
	until time.Time
}

// newServer allows the broker's client the legacy exchange, which realm files cannot express.
func newServer() (*Server, error) {
	s := &Server{}
	return s, s.allowLegacyExchange("platform", "eodispatch-api", "deployed-api")
}

// Object is a JSON object.
type Object = map[string]any

// send sends a request without following redirects and returns status, header and body of the response.
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

// Token requests a token at a realm's token endpoint. The response must be a success.
func (s *Server) Token(realm string, form url.Values) (Object, error) {
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	status, _, body, err := send("POST", URL+"/realms/"+realm+"/protocol/openid-connect/token", header, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	var answer Object
	if err := json.Unmarshal(body, &answer); err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("token of realm %s: %d %.300s", realm, status, body)
	}
	return answer, nil
}

// SignIn returns an access token of a user of apex for a public client.
func (s *Server) SignIn(user, client string) (string, error) {
	answer, err := s.Token("apex", url.Values{"grant_type": {"password"}, "client_id": {client}, "scope": {"openid"},
		"username": {user}, "password": {user + "-password"}})
	if err != nil {
		return "", err
	}
	return answer["access_token"].(string), nil
}

// Admin calls the admin API: path is below /admin/realms/. It decodes the response into into, unless that is nil.
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
		return fmt.Errorf("%s %s: %d %.300s", method, path, status, said)
	case into == nil:
		return nil
	}
	return json.Unmarshal(said, into)
}

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

// change reads a representation, changes it and writes it back.
func (s *Server) change(path string, change func(Object)) error {
	var is Object
	if err := s.Admin("GET", path, nil, &is); err != nil {
		return err
	}
	change(is)
	return s.Admin("PUT", path, is, nil)
}

// Provider changes the configuration of an identity provider of apex; "enabled" and "storeToken" are top-level switches.
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

// Client changes a client of apex: the given attributes, and other settings.
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

// Realm changes settings of a realm.
func (s *Server) Realm(realm string, settings Object) error {
	return s.Admin("PUT", realm, settings, nil)
}

// id looks up an object of a realm by name: users by "username", clients by "clientId".
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
	return "", fmt.Errorf("realm %s has no %s of %s", realm, kind, name)
}

// LogOut ends all sessions of a user. For a platform's user that invalidates the stored token.
func (s *Server) LogOut(realm, user string) error { return s.user(realm, user, "POST", "/logout", nil) }

// Enable enables or disables a user.
func (s *Server) Enable(realm, user string, on bool) error {
	return s.user(realm, user, "PUT", "", Object{"enabled": on})
}

// Unlink removes the link of a user of realm to the identity provider alias.
func (s *Server) Unlink(realm, user, alias string) error {
	return s.user(realm, user, "DELETE", "/federated-identity/"+alias, nil)
}

// LinkByAdmin links a user of a realm to one of another, without a stored token.
func (s *Server) LinkByAdmin(realm, user, alias, other, otherUser string) error {
	id, err := s.id(other, "users", "username", otherUser)
	if err != nil {
		return err
	}
	return s.user(realm, user, "POST", "/federated-identity/"+alias, Object{"identityProvider": alias, "userId": id, "userName": otherUser})
}

func (s *Server) user(realm, user, method, path string, body any) error {
	id, err := s.id(realm, "users", "username", user)
	if err != nil {
		return err
	}
	return s.Admin(method, realm+"/users/"+id+path, body, nil)
}

// AddUser creates a user with the password NAME-password.
func (s *Server) AddUser(realm, name string) error {
	return s.Admin("POST", realm+"/users", Object{"username": name, "email": name + "@example.test", "emailVerified": true,
		"firstName": name, "lastName": "X", "enabled": true,
		"credentials": []Object{{"type": "password", "value": name + "-password", "temporary": false}}}, nil)
}

// allowLegacyExchange allows clients of apex to exchange for tokens of an identity provider by requested_issuer.
func (s *Server) allowLegacyExchange(alias string, clients ...string) error {
	var permissions struct{ ScopePermissions map[string]string }
	err := s.Admin("PUT", "apex/identity-provider/instances/"+alias+"/management/permissions", Object{"enabled": true}, &permissions)
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
	err = s.Admin("POST", server+"/policy/client", Object{"name": "who may use " + alias, "logic": "POSITIVE", "clients": brokers}, &policy)
	if err != nil {
		return err
	}
	permission := permissions.ScopePermissions["token-exchange"]
	if permission == "" {
		return errors.New("keycloak gives no permission token-exchange")
	}
	return s.change(server+"/permission/scope/"+permission, func(is Object) { is["policies"] = []any{policy["id"]} })
}
