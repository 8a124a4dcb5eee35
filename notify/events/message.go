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

// data is what a message says about a job or a task. What else a receiver needs it reads by the id.
type data struct {
	Job    int64  `json:"job_id,omitempty"`
	Task   int64  `json:"task_id,omitempty"`
	Number int    `json:"number,omitempty"` // in the task
	Status string `json:"status,omitempty"`
	Reason string `json:"attention,omitempty"` // why the job or the task waits for its owner
	Advice string `json:"message,omitempty"`   // what that means, and what the owner can do
	Share  int    `json:"share,omitempty"`     // percentage of a task's jobs that have ended
}

// eventMedia is the media type of a CloudEvent in structured mode.
const eventMedia = "application/cloudevents+json; charset=utf-8"

// body returns the message about a delivery.
func (s *Sender) body(d dispatch.Delivery) ([]byte, error) {
	m := message{Version: "1.0", ID: d.Event.String(), Source: s.Source,
		Type: "org.eodispatch.job." + string(d.Status) + ".v1", Time: d.Happened.UTC(),
		Media: "application/json", Data: data{Job: int64(d.Job), Task: int64(d.Task), Number: d.Number,
			Status: string(d.Status)}}
	why, needed := d.Status.Needed()
	share, shared := strings.CutPrefix(string(d.Status), dispatch.SharePrefix)
	switch {
	case d.Status == dispatch.TestEvent:
		m.Type = "org.eodispatch.test.v1"
	case d.Status == dispatch.SignInEvent:
		m.Type = "org.eodispatch.sign-in-required.v1"
	case needed:
		m.Type = "org.eodispatch.job.attention.v1"
		if d.Of != 0 {
			m.Type = "org.eodispatch.task.attention.v1"
		}
		m.Data.Status, m.Data.Reason, m.Data.Advice = string(dispatch.NeedsOwner), string(why), s.Advice(why)
	case shared:
		m.Type, m.Data.Status = "org.eodispatch.task.share.v1", ""
		m.Data.Share, _ = strconv.Atoi(share) // it was written from a number
	case d.Of != 0:
		m.Type = "org.eodispatch.task.ended.v1"
	}
	switch {
	case d.Of != 0:
		m.Subject = fmt.Sprintf("upscale_tasks/%d", d.Of)
	case d.Job != 0:
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

// signingKey returns the key in a secret of Standard Webhooks.
func signingKey(secret dispatch.Secret) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret.Reveal(), secretPrefix))
	if err != nil || len(key) < 16 || len(key) > 64 {
		return nil, errors.New("it must be 16 to 64 bytes in base64, which may begin with " + secretPrefix)
	}
	return key, nil
}

// headers returns the headers of a message. With a secret it is signed as Standard Webhooks requires.
func headers(secret dispatch.Secret, id string, now time.Time, body []byte) (http.Header, error) {
	at := strconv.FormatInt(now.Unix(), 10)
	h := http.Header{}
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", at)
	if secret == "" {
		return h, nil
	}
	key, err := signingKey(secret)
	if err != nil {
		return h, err
	}
	sum := hmac.New(sha256.New, key)
	fmt.Fprintf(sum, "%s.%s.%s", id, at, body)
	h.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(sum.Sum(nil)))
	return h, nil
}
