package simulator_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/eodispatch/eodispatch/test/simulator"
)

// TestStart tests the whole path on the loopback interface: sign in, exchange, run a job on both platforms.
func TestStart(t *testing.T) {
	w, err := simulator.Start(simulator.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	have := w.Credentials
	c := caller{t: t, client: &http.Client{Timeout: 2 * time.Minute},
		header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}}
	defer c.client.CloseIdleConnections()
	user := c.must(200, "POST "+have.Issuer+"/protocol/openid-connect/token",
		form("grant_type", "password", "client_id", have.Client, "username", have.User, "password", have.Password))
	exchanged := c.must(200, "POST "+have.Issuer+"/protocol/openid-connect/token",
		form("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange",
			"client_id", have.BrokerID, "client_secret", have.BrokerSecret, "subject_token",
			user.json("access_token").(string), "requested_issuer", simulator.PlatformAlias))
	c.must(200, "POST "+have.Platform+"/protocol/openid-connect/token", form("grant_type", "client_credentials",
		"client_id", have.ServiceID, "client_secret", have.ServiceSecret))

	token := exchanged.json("access_token").(string)
	eo := caller{t: t, client: c.client, base: w.OpenEOURL + "/openeo/1.2", bearer: "oidc/sim/" + token}
	id := create(eo, graph)
	eo.must(202, "POST /jobs/"+id+"/results", "")
	eo.must(200, "GET /jobs/"+id+"/results", "")
	ogc := caller{t: t, client: c.client, base: w.OGCURL, bearer: token,
		header: http.Header{"Accept": {"application/json"}}}
	ogc.must(200, "GET "+submit(ogc, "ndvi", bbox+`,"marker":"m"`)+"/results", "")
	ogc.bearer = user.json("access_token").(string)
	ogc.refused(401, "title", "unauthorized", "GET /jobs", "")

	control := caller{t: t, client: c.client, base: w.ControlURL}
	var tally struct{ OpenEO, OGC, IdP simulator.Tally }
	if err := json.Unmarshal(control.must(200, "GET /_oracle", "").body, &tally); err != nil {
		t.Fatal(err)
	}
	if tally.OpenEO.Tags["t-1"].Runs != 1 || tally.OGC.Tags["m"].Runs != 1 ||
		tally.OpenEO.Accounts["alice-p"].Requests != 3 || len(tally.IdP.Routes) == 0 {
		t.Errorf("oracle %+v", tally)
	}
	control.must(204, "PUT /_faults",
		`{"openeo":{"faults":[{"route":"GET /me","status":503}],"life":{"run":3600000000000}},"ogc":{"faults":[{"times":1,"status":500}]}}`)
	eo.must(503, "GET /me", "")
	ogc.must(500, "GET /", "")
	eo.must(202, "POST /jobs/"+id+"/results", "")
	if got := eo.status(id); got != "running" {
		t.Errorf("status %v", got)
	}
	control.must(204, "PUT /_faults", `{"openeo":{"faults":[]}}`)
	eo.must(200, "GET /me", "")
	control.must(400, "PUT /_faults", `{"openeo":{"fault":[]}}`)
}

func TestStart_IsQuick(t *testing.T) {
	begin := time.Now()
	w, err := simulator.Start(simulator.Options{Open: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	c := caller{t: t, client: &http.Client{}}
	defer c.client.CloseIdleConnections()
	c.must(200, "GET "+w.OpenEOURL+"/openeo/1.2/jobs", "")
	c.must(200, "GET "+w.OGCURL+"/jobs?f=json", "")
	if took := time.Since(begin); took > 5*time.Second { // 0.1 s on a quiet machine
		t.Errorf("ready after %v", took)
	}
}
