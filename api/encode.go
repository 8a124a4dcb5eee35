package api

import (
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/eodispatch/eodispatch/client/wire"
	"github.com/eodispatch/eodispatch/dispatch"
)

// jsonText is JSON that is being written, member by member, without reflection: lists have thousands of jobs. Rare
// members go through [dispatch.Encode].
type jsonText struct {
	json []byte
	err  error
}

// placeIn is where the text of a job says its place in the queue, counted from the end of the text. The two are equal
// if it does not.
type placeIn struct{ begin, end int }

// appendSummary appends a job as [dispatch.Encode] does, except that the white space in its parameters stays.
func appendSummary(to []byte, j *wire.ProcessingJobSummary) ([]byte, placeIn, error) {
	t := jsonText{json: to}
	t.add(`{"id":`)
	t.json = strconv.AppendInt(t.json, j.ID, 10)
	t.string(`,"title":`, j.Title)
	t.optional(`,"name":`, j.Name)
	t.string(`,"label":`, j.Label)
	t.string(`,"status":`, string(j.Status))
	t.string(`,"service":{"endpoint":`, j.Service.Endpoint)
	if j.Service.Namespace == nil {
		t.add(`,"namespace":null`)
	} else {
		t.string(`,"namespace":`, *j.Service.Namespace)
	}
	t.string(`,"application":`, j.Service.Application)
	t.add("}")
	if p := j.Parameters; p != nil {
		t.add(`,"parameters":`)
		t.json = append(t.json, p...)
	}
	if j.ParametersDeleted {
		t.add(`,"parameters_deleted":true`)
	}
	if j.Attention != nil {
		t.any(`,"attention":`, j.Attention)
	}
	t.optional(`,"warning":`, j.Warning)
	t.optional(`,"failure":`, j.Failure)
	if j.Progress != nil {
		t.number(`,"progress":`, *j.Progress)
	}
	if j.Checked != nil {
		t.time(`,"checked":`, *j.Checked)
	}
	begin := len(t.json)
	if j.QueuePosition != nil {
		t.json = appendPlace(t.json, *j.QueuePosition)
	}
	end := len(t.json)
	if j.Forecast != nil {
		t.any(`,"forecast":`, j.Forecast)
	}
	if j.TaskID != 0 {
		t.add(`,"task_id":`)
		t.json = strconv.AppendInt(t.json, j.TaskID, 10)
	}
	t.optional(`,"platform":`, j.Platform)
	t.optional(`,"platform_job_id":`, j.PlatformJobID)
	t.optional(`,"format":`, j.Format)
	if j.Costs != nil {
		t.number(`,"costs":`, *j.Costs)
	}
	t.optional(`,"cost_unit":`, j.CostUnit)
	if j.Usage != nil {
		t.any(`,"usage":`, j.Usage)
	}
	if j.Retries != nil {
		t.any(`,"retries":`, j.Retries)
	}
	if j.Duration != 0 {
		t.number(`,"duration":`, j.Duration)
	}
	if len(j.Labels) > 0 {
		t.any(`,"labels":`, j.Labels)
	}
	t.optional(`,"note":`, j.Note)
	t.add("}")
	return t.json, placeIn{len(t.json) - begin, len(t.json) - end}, t.err
}

func appendPlace(to []byte, ahead int) []byte {
	return strconv.AppendInt(append(to, `,"queue_position":`...), int64(ahead), 10)
}

func (t *jsonText) add(s string) { t.json = append(t.json, s...) }

// optional adds a member that is absent if it is empty.
func (t *jsonText) optional(name, value string) {
	if value != "" {
		t.string(name, value)
	}
}

func (t *jsonText) string(name, value string) {
	for i := range len(value) {
		if c := value[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			t.any(name, value)
			return
		}
	}
	t.add(name)
	t.json = append(t.json, '"')
	t.add(value)
	t.json = append(t.json, '"')
}

func (t *jsonText) number(name string, value float64) {
	if size := math.Abs(value); size != 0 && !(size >= 1e-6 && size < 1e21) { // written with an exponent, or not at all
		t.any(name, value)
		return
	}
	t.add(name)
	t.json = strconv.AppendFloat(t.json, value, 'f', -1, 64)
}

func (t *jsonText) time(name string, value time.Time) {
	if year := value.Year(); year < 0 || year > 9999 || value.Location() != time.UTC {
		t.any(name, value)
		return
	}
	t.add(name)
	t.json = value.AppendFormat(t.json, `"`+time.RFC3339Nano+`"`)
}

func (t *jsonText) any(name string, value any) {
	encoded, err := dispatch.Encode(value)
	if err != nil && t.err == nil {
		t.err = err
	}
	t.add(name)
	t.json = append(t.json, encoded...)
}
