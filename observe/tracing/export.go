package tracing

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Config says where traces are sent.
type Config struct {
	Endpoint string                     // URL of the receiver; "": nothing is recorded
	Headers  map[string]dispatch.Secret // of each request to it
	Incoming bool                       // requests of clients continue the traces that their headers name
	Version  string                     // of the program
	Log      *slog.Logger

	// Transport replaces the default transport. For tests.
	Transport http.RoundTripper
}

// Start begins to record and to send. It contacts nobody: a receiver that does not answer costs spans, and delays
// nothing. Which traces are recorded, and how many spans wait to be sent, is as the variables OTEL_TRACES_SAMPLER and
// OTEL_BSP_… of OpenTelemetry say.
func Start(ctx context.Context, c Config) (*Tracing, error) {
	if c.Endpoint == "" {
		return nil, nil
	}
	exporter, err := otlptrace.New(ctx, newSender(c))
	if err != nil {
		return nil, err
	}
	described, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "eodispatch"), attribute.String("service.version", c.Version)),
		resource.WithFromEnv()) // the last takes precedence
	if err != nil {
		return nil, err
	}
	otel.SetErrorHandler(&complaints{log: c.Log})
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(described))
	return &Tracing{provider: provider, tracer: provider.Tracer("github.com/eodispatch/eodispatch"),
		incoming: c.Incoming}, nil
}

// Check asks whether the receiver takes traces, by sending it none.
func Check(ctx context.Context, c Config) error {
	_, err := newSender(c).send(ctx, nil)
	return err
}

// lastSpans is how long the receiver has to accept the last spans.
const lastSpans = 2 * time.Second

// Stop sends what was recorded.
func (t *Tracing) Stop() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // it has complained
}

// complainEvery is the least time between two lines about spans that could not be sent.
const complainEvery = time.Minute

// complaints logs that spans could not be sent, now and then.
type complaints struct {
	log  *slog.Logger
	mu   sync.Mutex
	last time.Time
}

// Handle implements [otel.ErrorHandler].
func (c *complaints) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.last) < complainEvery {
		return
	}
	c.last = time.Now()
	c.log.Warn("traces could not be sent", "error", err)
}

// sender implements [otlptrace.Client] by OTLP over HTTP. That of OpenTelemetry would make the program contain gRPC.
type sender struct {
	endpoint string
	headers  map[string]dispatch.Secret
	client   http.Client
}

// How often spans are sent that a receiver did not take, the pause before the second time, which doubles with each, and
// how long it may take to answer.
const (
	sendings     = 4
	firstPause   = time.Second
	answerWithin = 10 * time.Second
)

func newSender(c Config) *sender {
	s := &sender{endpoint: c.Endpoint, headers: c.Headers, client: http.Client{Transport: c.Transport,
		// the headers are for this receiver alone
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if c.Transport == nil {
		s.client.Transport = http.DefaultTransport.(*http.Transport).Clone()
	}
	return s
}

// Start implements [otlptrace.Client].
func (s *sender) Start(context.Context) error { return nil }

// Stop implements [otlptrace.Client].
func (s *sender) Stop(context.Context) error {
	s.client.CloseIdleConnections()
	return nil
}

// UploadTraces implements [otlptrace.Client]. What it sends, ExportTraceServiceRequest, has the same encoding as
// TracesData.
func (s *sender) UploadTraces(ctx context.Context, spans []*otlp.ResourceSpans) error {
	body, err := proto.Marshal(&otlp.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	pause := firstPause
	for n := 1; ; n, pause = n+1, 2*pause {
		again, err := s.send(ctx, body)
		if err == nil || !again || n == sendings {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// send sends spans once. again reports whether the receiver may take them later.
func (s *sender) send(ctx context.Context, body []byte) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	for name, value := range s.headers {
		r.Header.Set(name, value.Reveal())
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	response, err := s.client.Do(r)
	if err != nil {
		return true, err
	}
	defer response.Body.Close()
	// so that the connection is used again; what it says changes nothing
	_, _ = io.CopyN(io.Discard, response.Body, 1<<16)
	if response.StatusCode/100 == 2 {
		return false, nil
	}
	return slices.Contains([]int{429, 502, 503, 504}, response.StatusCode), fmt.Errorf("the receiver answers %s",
		response.Status)
}
