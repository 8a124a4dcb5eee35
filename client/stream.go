package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/eodispatch/eodispatch/client/wire"
)

// Update is one message of a stream.
type Update struct {
	// Full says that Tasks and Jobs are all there are, not only what has changed. The first Update of each connection
	// is full, so that nothing that happened during an interruption is missed; later ones may be.
	Full  bool                        `json:"-"`
	Tasks []wire.UpscalingTaskSummary `json:"upscaling_tasks"`
	Jobs  []wire.ProcessingJobSummary `json:"processing_jobs"`

	RemovedTasks []int64 `json:"removed_upscaling_tasks"`
	RemovedJobs  []int64 `json:"removed_processing_jobs"`

	// Interrupted is why the connection was lost. The stream goes on by itself; an Update with it carries nothing else.
	Interrupted error `json:"-"`
}

// WatchTask yields a task and its jobs, without their parameters, and then what changes. It goes on after lost
// connections, with a new token each time, until the caller stops or the broker refuses: the error is its refusal, or
// that of ctx. A deleted task ends it with TASK_NOT_FOUND.
func (c *Client) WatchTask(ctx context.Context, id int64) iter.Seq2[Update, error] {
	return c.watch(ctx, fmt.Sprintf("/ws/upscale_tasks/%d", id))
}

// WatchList yields all of the user's tasks, and the jobs that belong to none, and then what changes, as WatchTask does.
func (c *Client) WatchList(ctx context.Context) iter.Seq2[Update, error] {
	return c.watch(ctx, "/job_status")
}

const (
	mostMessage = 64 << 20 // bytes of a message: 1,000 jobs
	dialWithin  = time.Minute
	pingEvery   = 30 * time.Second
	pongWithin  = 30 * time.Second
)

// errStopped ends a stream because the caller wants no more.
var errStopped = errors.New("stopped")

func (c *Client) watch(ctx context.Context, path string) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		back, connected := backOff{}, false
		for {
			err := c.listen(ctx, path, func(u Update) bool {
				back, connected = backOff{}, true
				return yield(u, nil)
			})
			switch {
			case errors.Is(err, errStopped):
				return
			case ctx.Err() != nil, !connected && !answeredBusy(err), connected && !passes(err) && !lost(err):
				yield(Update{}, errors.Join(ctx.Err(), err))
				return
			}
			if connected && !yield(Update{Interrupted: err}, nil) {
				return
			}
			if back.wait(ctx) != nil {
				yield(Update{}, ctx.Err())
				return
			}
		}
	}
}

// answeredBusy reports whether a broker that is there asks for a later attempt.
func answeredBusy(err error) bool {
	_, answered := errors.AsType[*Error](err)
	return answered && passes(err)
}

// lost reports whether an error ended a connection that worked. The next attempt shows whether the token or the task is
// the reason.
func lost(err error) bool {
	_, refused := errors.AsType[*Error](err)
	_, tokenless := errors.AsType[*tokenError](err)
	return !refused && !tokenless
}

// listen opens one connection and calls take for each message until take returns false.
func (c *Client) listen(ctx context.Context, path string, take func(Update) bool) error {
	socket, err := c.dial(ctx, path)
	if err != nil {
		return err
	}
	defer socket.CloseNow() // the broker does not wait for a farewell
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go keepAlive(ctx, socket, cancel)
	var parts Update
	for {
		_, text, err := socket.Read(ctx)
		if err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		u, more, err := updateOf(text)
		if err != nil {
			return err
		}
		parts = parts.with(u)
		if more || parts.empty() {
			continue
		}
		if !take(parts) {
			return errStopped
		}
		parts = Update{}
	}
}

// with returns an update of several messages.
func (u Update) with(more Update) Update {
	if more.Full {
		return more
	}
	u.Tasks, u.Jobs = append(u.Tasks, more.Tasks...), append(u.Jobs, more.Jobs...)
	u.RemovedTasks = append(u.RemovedTasks, more.RemovedTasks...)
	u.RemovedJobs = append(u.RemovedJobs, more.RemovedJobs...)
	return u
}

func (u Update) empty() bool {
	return !u.Full && len(u.Tasks)+len(u.Jobs)+len(u.RemovedTasks)+len(u.RemovedJobs) == 0
}

// keepAlive ends a connection whose other end is gone without a word.
func keepAlive(ctx context.Context, socket *websocket.Conn, cancel context.CancelCauseFunc) {
	again := time.NewTicker(pingEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		within, done := context.WithTimeout(ctx, pongWithin)
		err := socket.Ping(within)
		done()
		if err != nil {
			cancel(fmt.Errorf("the broker no longer responds: %w", err))
			return
		}
	}
}

func (c *Client) dial(ctx context.Context, path string) (*websocket.Conn, error) {
	header := http.Header{}
	if err := c.headers(ctx, header, call{}); err != nil {
		return nil, err
	}
	header.Del("Accept")
	within, done := context.WithTimeout(ctx, dialWithin)
	defer done()
	query := url.Values{"changes": {"true"}, "parameters": {"false"}}
	socket, response, err := websocket.Dial(within, "ws"+strings.TrimPrefix(c.base, "http")+path+"?"+query.Encode(),
		&websocket.DialOptions{HTTPClient: c.HTTP, HTTPHeader: header})
	if err == nil {
		socket.SetReadLimit(mostMessage)
		return socket, nil
	}
	if response == nil || response.StatusCode == http.StatusSwitchingProtocols {
		return nil, &url.Error{Op: "open", URL: c.base + path, Err: err}
	}
	if !refuses(response) {
		media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
		return nil, notABroker(c.base, media)
	}
	// the library keeps the beginning of the body; what is missing shows as no error code
	text, _ := io.ReadAll(response.Body)
	return nil, c.errorOf(response, text)
}

// updateOf decodes a message. more: others belong to the same update.
func updateOf(text []byte) (u Update, more bool, err error) {
	var m wire.StreamMessage
	if err := json.Unmarshal(text, &m); err != nil {
		return u, false, fmt.Errorf("a message of the stream cannot be read: %w", err)
	}
	var d struct { // either
		wire.UpscalingTask
		Update
	}
	switch m.Type {
	case "error":
		return u, false, errors.New(*cmp.Or(m.Message, &m.Code))
	case "status", "changes":
		err = json.Unmarshal(m.Data, &d)
	default:
		return u, false, nil
	}
	if u = d.Update; d.ID != 0 {
		u.Tasks, u.Jobs = []wire.UpscalingTaskSummary{d.UpscalingTaskSummary}, d.UpscalingTask.Jobs
	}
	u.Full = m.Type == "status"
	return u, m.More, err
}
