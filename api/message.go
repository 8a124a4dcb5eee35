package api

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/eodispatch/eodispatch/dispatch"
)

// encoded returns v in JSON. It does not escape HTML, so that parameters keep their characters.
func encoded(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// message returns a message of a stream. Without data or text, these members are null.
func message(kind string, task dispatch.TaskID, data []byte, text string) []byte {
	if data == nil {
		data = []byte("null")
	}
	head, tail := enclosing(kind, task)
	if text != "" {
		said, _ := json.Marshal(text)
		tail = `,"message":` + string(said) + `}`
	}
	return slices.Concat([]byte(head), data, []byte(tail))
}

// enclosing returns the JSON before and after the data of a message without text.
func enclosing(kind string, task dispatch.TaskID) (head, tail string) {
	head = `{"type":` + strconv.Quote(kind)
	if task != 0 {
		head += `,"task_id":` + strconv.FormatInt(int64(task), 10)
	}
	return head + `,"data":`, `,"message":null}`
}
