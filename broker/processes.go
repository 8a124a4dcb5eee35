package broker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/eodispatch/eodispatch/dispatch"
)

// Process returns how the platform of a service describes its process, Unsupported for one of another protocol. User
// "", who has not signed in, gets what everybody does.
func (b *Broker) Process(ctx context.Context, u dispatch.UserID, s dispatch.Service,
	l dispatch.Label) (dispatch.ProcessDescription, error) {
	return describe(ctx, b, u, s, l, dispatch.ProcessDescriber.Process)
}

// Processes returns the summaries of the processes in the namespace of a service, whatever its application.
func (b *Broker) Processes(ctx context.Context, u dispatch.UserID, s dispatch.Service,
	l dispatch.Label) ([]json.RawMessage, error) {
	return describe(ctx, b, u, s, l, dispatch.ProcessDescriber.Processes)
}

// describe asks the platform of a service what it says to everybody, or else what it says to the user.
func describe[T any](ctx context.Context, b *Broker, u dispatch.UserID, s dispatch.Service, l dispatch.Label,
	ask func(dispatch.ProcessDescriber, context.Context, dispatch.Token, dispatch.Service) (T, error)) (none T,
	err error) {
	backend, err := b.Backend(s, l)
	if err != nil {
		return none, err
	}
	describer, can := backend.Platform.(dispatch.ProcessDescriber)
	if !can {
		return none, &dispatch.Error{Kind: dispatch.Unsupported, Op: "dispatch.Process",
			Text: "This platform does not describe its services as processes with outputs."}
	}
	return callOpenly(ctx, b, u, backend, func(ctx context.Context, t dispatch.Token) (T, error) {
		return ask(describer, ctx, t, s)
	})
}

// Outputs returns the outputs of a finished job as its platform gives them. Where the platform returned the results in
// its response to the submission, the files of the results stand for them.
func (b *Broker) Outputs(ctx context.Context, u dispatch.UserID, id dispatch.JobID) (all []dispatch.OutputValue,
	err error) {
	j, err := b.Records.Record(ctx, u, id)
	if err != nil {
		return nil, err
	}
	if j.Status != dispatch.Finished {
		return nil, &dispatch.Error{Kind: dispatch.Conflict, Op: "dispatch.Outputs", Text: "The job has not finished."}
	}
	known, err := b.kept(ctx, u, id)
	switch {
	case err != nil:
		return nil, err
	case known.Given && known.Body != nil:
		all = outputsOf(b.untagged(known.Body))
	default:
		all, err = fromPlatform(ctx, b, u, j, func(ctx context.Context, p dispatch.Platform,
			t dispatch.Token) ([]dispatch.OutputValue, error) {
			reader, can := p.(dispatch.ProcessDescriber)
			if !can {
				return nil, nil
			}
			return reader.Outputs(ctx, t, j.Ref)
		})
	}
	return b.named(ctx, u, j.Request, all), err
}

// OpenOutput opens the file that an output of a finished job links to, as [Broker.OpenFile] opens that of an asset. The
// output is one that [Broker.Outputs] returned for the job.
func (b *Broker) OpenOutput(ctx context.Context, u dispatch.UserID, id dispatch.JobID, v dispatch.OutputValue,
	r dispatch.FileRequest) (*dispatch.File, error) {
	return b.openOwn(ctx, u, id, func(j dispatch.Record) (*dispatch.File, error) { return b.follow(ctx, j, v.Link, r) })
}

// named gives the only output of a job its name.
func (b *Broker) named(ctx context.Context, u dispatch.UserID, r dispatch.Request,
	all []dispatch.OutputValue) []dispatch.OutputValue {
	if len(all) == 1 && all[0].Name == "" {
		all[0].Name = "result"
		if d, err := b.Process(ctx, u, r.Service, r.Label); err == nil && len(d.Outputs) == 1 {
			all[0].Name = d.Outputs[0].Name
		}
	}
	return all
}

// outputsOf returns the assets of a Collection as outputs, which is what became of them.
func outputsOf(collection json.RawMessage) (all []dispatch.OutputValue) {
	var c struct {
		Assets map[string]struct{ Href, Type string }
	}
	_ = json.Unmarshal(collection, &c) // without assets there are none
	for _, name := range slices.Sorted(maps.Keys(c.Assets)) {
		asset := c.Assets[name]
		v := dispatch.OutputValue{Name: name, Media: asset.Type, Link: asset.Href}
		head, text, inline := strings.Cut(asset.Href, ";base64,")
		if data, err := base64.StdEncoding.DecodeString(text); inline && strings.HasPrefix(head, "data:") &&
			err == nil {
			v.Link, v.Data = "", data
		}
		all = append(all, v)
	}
	return all
}
