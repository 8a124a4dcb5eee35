package wire

import "encoding/json"

// StreamMessage is a message of a stream.
type StreamMessage struct {
	Type    string          `json:"type" enum:"init,loading,status,changes,error"`
	TaskID  int64           `json:"task_id,omitempty" doc:"Of the stream of a task: its id"`
	Data    json.RawMessage `json:"data" doc:"null"`
	More    bool            `json:"more,omitempty" doc:"Whether the next message of the type changes belongs to the same state"`
	Code    string          `json:"error_code,omitempty" doc:"Stable code for programs"`
	Message *string         `json:"message" nullable:"true" doc:"Explanation for people: plain text"`
}

// StatusChanges is the data of a message of type changes: new or changed jobs and tasks, and the ids of deleted ones.
type StatusChanges struct {
	UpscalingTasks []UpscalingTaskSummary `json:"upscaling_tasks"`
	ProcessingJobs []ProcessingJobSummary `json:"processing_jobs"`
	RemovedTasks   []int64                `json:"removed_upscaling_tasks"`
	RemovedJobs    []int64                `json:"removed_processing_jobs"`
}
