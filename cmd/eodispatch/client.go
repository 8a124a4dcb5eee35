package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// client calls a broker over HTTP with a user's token, as any client does.
type client struct {
	broker string // base URL without a trailing slash
	token  string
}

// job holds the members of a ProcessingJob or an UpscalingTask that the demonstration uses.
type job struct {
	ID        int64    `json:"id"`
	Status    string   `json:"status"`
	Progress  *float64 `json:"progress"`
	Failure   string   `json:"failure"`
	Counts    counts   `json:"counts"` // tasks only
	Jobs      []job    `json:"jobs"`   // tasks only
	Attention *struct {
		Message string `json:"message"`
	} `json:"attention"`
}

// ended reports whether j has reached a final status.
func (j job) ended() bool { return dispatch.Status(j.Status).Final() }

// submit posts a job. The request may omit its options, but not its parameters.
func (c client) submit(ctx context.Context, r dispatch.Request) (j job, err error) {
	body, err := json.Marshal(r)
	if err != nil {
		return j, err
	}
	return j, c.call(ctx, http.MethodPost, "/unit_jobs", body, &j)
}

// tiles splits an area, a GeoJSON Polygon, into the tiles of a grid.
func (c client) tiles(ctx context.Context, area, grid string) ([]json.RawMessage, error) {
	var found struct {
		Geometries []json.RawMessage `json:"geometries"`
	}
	body := fmt.Appendf(nil, `{"aoi": %s, "grid": %q}`, area, grid)
	return found.Geometries, c.call(ctx, http.MethodPost, "/tiles", body, &found)
}

// upscale posts a task that runs r once for each value of the dimension.
func (c client) upscale(ctx context.Context, r dispatch.Request, d dispatch.Dimension) (task job, err error) {
	body, err := json.Marshal(struct {
		dispatch.Request
		Dimension dispatch.Dimension `json:"dimension"`
	}{r, d})
	if err != nil {
		return task, err
	}
	return task, c.call(ctx, http.MethodPost, "/upscale_tasks", body, &task)
}

func (c client) task(ctx context.Context, id int64) (task job, err error) {
	return task, c.call(ctx, http.MethodGet, fmt.Sprintf("/upscale_tasks/%d", id), nil, &task)
}

func (c client) job(ctx context.Context, id int64) (j job, err error) {
	return j, c.call(ctx, http.MethodGet, fmt.Sprintf("/unit_jobs/%d", id), nil, &j)
}

// collection holds the members of a STAC Collection that the demonstration uses.
type collection struct {
	ID     string `json:"id"`
	Assets map[string]struct {
		Href string `json:"href"`
		Type string `json:"type"`
	} `json:"assets"`
}

func (c client) results(ctx context.Context, id int64) (found *collection, err error) {
	return found, c.call(ctx, http.MethodGet, fmt.Sprintf("/unit_jobs/%d/results", id), nil, &found)
}

func (c client) call(ctx context.Context, method, path string, body []byte, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, c.broker+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json")
	return answer(request, into)
}

// answer sends a request and decodes the JSON response. A refused request becomes an error with the server's message.
func answer(request *http.Request, into any) error {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %s: %s", request.Method, request.URL, response.Status, bytes.TrimSpace(text))
	}
	return json.Unmarshal(text, into)
}

// signIn obtains a user's token by the password grant, which only a demonstration should use.
func signIn(ctx context.Context, issuer, clientID, user, password string) (string, error) {
	form := url.Values{"grant_type": {"password"}, "client_id": {clientID}, "username": {user}, "password": {password}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, issuer+"/protocol/openid-connect/token",
		strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	var got struct {
		Token string `json:"access_token"`
	}
	err = answer(request, &got)
	return got.Token, err
}
