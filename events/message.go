package events

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

// message is an event as CloudEvents 1.0.2 writes it in structured mode.
type message struct {
	Version string    `json:"specversion"`
	ID      string    `json:"id"` // the same for each try
	Source  string    `json:"source"`
	Type    string    `json:"type"`
	Subject string    `json:"subject,omitempty"`
	Time    time.Time `json:"time"`
	Media   string    `json:"datacontenttype"`
	Data    data      `json:"data"`
}

// data is what a message tells about a job. What else a receiver needs it reads by the job's id.
type data struct {
	Job    int64  `json:"job_id,omitempty"`
	Task   int64  `json:"task_id,omitempty"`
	Number int    `json:"number,omitempty"` // in the task
	Status string `json:"status"`
}

// body returns the message about a delivery.
func body(source string, d dispatch.Delivery) ([]byte, error) {
	m := message{Version: "1.0", ID: d.Event.String(), Source: source, Type: "org.eodispatch.job." + string(d.Status) + ".v1", Time: d.Happened.UTC(),
		Media: "application/json", Data: data{Job: int64(d.Job), Task: int64(d.Task), Number: d.Number, Status: string(d.Status)}}
	if d.Status == dispatch.TestEvent {
		m.Type = "org.eodispatch.test.v1"
	} else {
		m.Subject = fmt.Sprintf("unit_jobs/%d", d.Job)
	}
	return json.Marshal(m)
}

// secretPrefix begins a secret of Standard Webhooks.
const secretPrefix = "whsec_"

func newSecret() dispatch.Secret {
	key := make([]byte, 32)
	rand.Read(key)
	return dispatch.Secret(secretPrefix + base64.StdEncoding.EncodeToString(key))
}

// signed returns the headers of a message, signed as Standard Webhooks requires.
func signed(secret dispatch.Secret, id string, now time.Time, body []byte) (http.Header, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret.Reveal(), secretPrefix))
	if err != nil {
		return nil, errors.New("the secret of the hook is not in base64")
	}
	at := strconv.FormatInt(now.Unix(), 10)
	sum := hmac.New(sha256.New, key)
	fmt.Fprintf(sum, "%s.%s.%s", id, at, body)
	h := http.Header{}
	h.Set("Content-Type", "application/cloudevents+json; charset=utf-8")
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", at)
	h.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(sum.Sum(nil)))
	return h, nil
}
