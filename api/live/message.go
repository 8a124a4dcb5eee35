package live

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/eodispatch/eodispatch/dispatch"
)

// message returns a message of a stream. Without data or text, these members are null.
func message(kind string, task dispatch.TaskID, data []byte, text string) []byte {
	if data == nil {
		data = []byte("null")
	}
	head, tail := enclosing(kind, task)
	if text != "" {
		quoted, _ := json.Marshal(text)
		tail = `,"message":` + string(quoted) + `}`
	}
	return slices.Concat([]byte(head), data, []byte(tail))
}

// lastMessage returns the message that says why a stream ends.
func lastMessage(task dispatch.TaskID, code, text string) []byte {
	head, _ := enclosing("error", task)
	quoted, _ := json.Marshal(text)
	return fmt.Appendf(nil, `%snull,"error_code":%q,"message":%s}`, head, code, quoted)
}

// enclosing returns the JSON before and after the data of a message without text.
func enclosing(kind string, task dispatch.TaskID) (head, tail string) {
	head = `{"type":` + strconv.Quote(kind)
	if task != 0 {
		head += `,"task_id":` + strconv.FormatInt(int64(task), 10)
	}
	return head + `,"data":`, `,"message":null}`
}
