package api

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/eodispatch/eodispatch/api/call"
	"github.com/eodispatch/eodispatch/api/openapi"
	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// serviceBroker describes services.
type serviceBroker interface {
	// Parameters returns the parameters of a service in the order of its document.
	Parameters(context.Context, dispatch.UserID, dispatch.Service, dispatch.Label) ([]dispatch.Parameter, error)
	// Formats returns the output formats of a service; none if its platform does not list them.
	Formats(context.Context, dispatch.UserID, dispatch.Service, dispatch.Label) ([]dispatch.OutputFormat, error)
	// Policy returns what the operator says about requests for a service.
	Policy(dispatch.Service, dispatch.Label) dispatch.Policy
}

func (a *api) describe(ctx context.Context, in *openapi.Request) (*openapi.Plain[[]wire.Parameter], error) {
	body, err := a.ReadBody(in)
	if err != nil {
		return nil, err
	}
	service, label, faults := a.parseParams(body)
	if len(faults) > 0 {
		return nil, call.Invalid(faults)
	}
	parameters, err := a.Broker.Parameters(ctx, call.User(ctx), service, label)
	if err != nil {
		return nil, call.RequestError(err)
	}
	all := make([]wire.Parameter, len(parameters))
	for i, p := range parameters {
		all[i] = wireParameter(p)
		if a.Compat.ObjectAsString && slices.Contains(openapi.OwnTypes, p.Type) {
			all[i].Type = string(dispatch.String)
		}
	}
	return &openapi.Plain[[]wire.Parameter]{Body: all}, nil
}

func (a *api) parseParams(body []byte) (dispatch.Service, dispatch.Label, []dispatch.Fault) {
	given, f, ok := openapi.ReadInto[wire.ParamRequest](a.Document, body)
	if !ok {
		return dispatch.Service{}, "", f.All
	}
	service, l := a.service(f, given.Service, label(f, given.Label, given.Service), "service")
	return service, l, f.Sorted()
}

func wireParameter(p dispatch.Parameter) wire.Parameter {
	w := wire.Parameter{Name: p.Name, Type: string(p.Type), Optional: p.Optional, Description: p.Description,
		Default: orNull(p.Default), Options: []json.RawMessage{}, Schema: orNull(p.Schema), Minimum: p.Minimum,
		Maximum: p.Maximum, Nullable: p.Nullable, Warning: p.Warning}
	w.Options = append(w.Options, p.Options...)
	return w
}

func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		raw = json.RawMessage("null")
	}
	return raw
}
