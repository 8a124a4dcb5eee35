package operator

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eodispatch/eodispatch/dispatch"
)

const (
	scheme      = "Eodispatch-HMAC"
	proofHeader = "Eodispatch-Proof"
	mostSkew    = time.Minute // between two clocks of one machine
)

// Sign proves that who sends a request knows the key, without sending it: whoever listens in place of the broker does
// not learn the key. The request must carry [Header] already.
func Sign(r *http.Request, body []byte, key dispatch.Secret, now time.Time) {
	id := fmt.Sprintf("%d.%s", now.Unix(), rand.Text())
	r.Header.Set("Authorization", scheme+" "+id+"."+proofOf(key, requestText(r, id, body)))
}

// Verify returns an error unless the answer to a signed request comes from the broker, which knows the key.
func Verify(sent *http.Request, answer *http.Response, body []byte, key dispatch.Secret) error {
	id, _, _ := splitProof(sent.Header.Get("Authorization"))
	if id == "" || !hmac.Equal([]byte(answer.Header.Get(proofHeader)),
		[]byte(proofOf(key, answerText(id, answer.StatusCode, body)))) {
		return errors.New(
			"the server at telemetry.listen is not the broker of this database, or has another version: its " +
				"response is not signed with the database's key")
	}
	return nil
}

// verified reads the body of a request, and returns an error unless the request was signed with the key a moment ago,
// and was not accepted before. id identifies the request.
func (s server) verified(r *http.Request, now time.Time) (id string, err error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, mostBody+1))
	if err != nil || len(body) > mostBody {
		return "", invalid(fmt.Sprintf("The body cannot be read, or has more than %d bytes.", mostBody))
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	id, proof, sent := splitProof(r.Header.Get("Authorization"))
	if s.Key == "" || id == "" || now.Sub(sent).Abs() > mostSkew ||
		!hmac.Equal([]byte(proof), []byte(proofOf(s.Key, requestText(r, id, body)))) {
		return "", &dispatch.Error{Kind: dispatch.Forbidden, Op: "operator",
			Text: "The request is not signed with the key of the broker's database: use eodispatch operator, of the " +
				"broker's own version and with its own configuration."}
	}
	if !s.accepted.add(id, sent, now) {
		return "", &dispatch.Error{Kind: dispatch.Forbidden, Op: "operator",
			Text: "This request was already accepted: run the command again."}
	}
	return id, nil
}

// requests are the ids of requests that were accepted, with the times at which they were sent.
type requests struct {
	sync.Mutex
	sent map[string]time.Time
}

// add reports whether a request was not accepted before. It forgets those that are too old to be accepted.
func (r *requests) add(id string, sent, now time.Time) bool {
	r.Lock()
	defer r.Unlock()
	maps.DeleteFunc(r.sent, func(_ string, sent time.Time) bool { return now.Sub(sent) > mostSkew })
	_, known := r.sent[id]
	r.sent[id] = sent
	return !known
}

// splitProof reads the header of a signed request; id is "" if it is none.
func splitProof(header string) (id, proof string, sent time.Time) {
	rest, _ := strings.CutPrefix(header, scheme+" ")
	parts := strings.Split(rest, ".")
	if len(parts) != 3 || rest == header {
		return "", "", sent
	}
	seconds, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return "", "", sent
	}
	return parts[0] + "." + parts[1], parts[2], time.Unix(seconds, 0)
}

func requestText(r *http.Request, id string, body []byte) string {
	return strings.Join([]string{"request", id, r.Method, r.URL.RequestURI(), r.Header.Get(Header), string(body)}, "\n")
}

func answerText(id string, status int, body []byte) string {
	return fmt.Sprintf("answer\n%s\n%d\n%s", id, status, body)
}

func proofOf(key dispatch.Secret, text string) string {
	sum := hmac.New(sha256.New, []byte(key.Reveal()))
	_, _ = io.WriteString(sum, text) // never fails
	return hex.EncodeToString(sum.Sum(nil))
}
