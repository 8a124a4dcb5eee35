package openapi

import (
	"encoding/json"
	"maps"
)

// AsyncAPI describes the streams in AsyncAPI 3.0. Their messages are made of schemas of the OpenAPI document.
func (a *Document) AsyncAPI() []byte {
	type object = map[string]any
	schema := func(name string) object { return object{"$ref": "openapi.json" + SchemasPath + name} }
	filtered := object{"ticket": object{"type": "string", "description": "Of POST /tickets, in place of a token"}}
	for _, p := range StreamParams {
		filtered[p.Name] = p.Schema
	}
	query := maps.Clone(filtered)
	delete(query, "filter")
	messages := func(state string) object {
		all := object{}
		for kind, data := range map[string]object{"init": {"type": "null"}, "loading": {"type": "null"},
			"status": schema(state), "changes": schema("StatusChanges"), "error": {"type": "null"}} {
			all[kind] = object{"name": kind, "payload": object{"allOf": []object{schema("StreamMessage"),
				{"properties": object{"type": object{"const": kind}, "data": data}}}}}
		}
		return all
	}
	channel := func(address, state string, query object) object {
		return object{"address": address, "messages": messages(state), "bindings": object{"ws": object{"query": object{
			"type": "object", "properties": query}}}}
	}
	task := channel("/ws/upscale_tasks/{task_id}", "UpscalingTask", query)
	task["parameters"] = object{"task_id": object{"description": "Id of the task"}}
	document, err := json.Marshal(object{"asyncapi": "3.0.0", "defaultContentType": "application/json",
		"info":     object{"title": a.Title, "version": a.Version, "description": StreamsText},
		"channels": object{"jobs": channel("/ws/jobs_status", "JobsStatusResponse", filtered), "task": task},
		"operations": object{"watchJobs": object{"action": "send", "channel": object{"$ref": "#/channels/jobs"}},
			"watchTask": object{"action": "send", "channel": object{"$ref": "#/channels/task"}}}})
	if err != nil {
		panic(err) // it is made of texts and numbers
	}
	return document
}
