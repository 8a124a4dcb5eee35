package openeo

import (
	"bufio"
	"io"
	"iter"
	"net/http"

	"github.com/eodispatch/eodispatch/dispatch"
)

// listAnswer returns a JSON object with an array and the member links. The elements are written while they are read.
// links is called after the last of them.
func listAnswer(member string, elements iter.Seq2[any, error], links func() []link) (*answer, error) {
	next, stop := iter.Pull2(elements)
	first, err, more := next()
	if err != nil {
		stop()
		return nil, err
	}
	return &answer{Write: func(w http.ResponseWriter) error {
		defer stop()
		w.WriteHeader(http.StatusOK)
		out := bufio.NewWriterSize(w, 32<<10)
		separator := `{"` + member + `":[`
		for v := first; more; v, err, more = next() {
			if err != nil {
				return err
			}
			if err := writeAfter(out, separator, v); err != nil {
				return err
			}
			separator = ","
		}
		if separator != "," {
			_, _ = io.WriteString(out, separator) // Flush returns its error
		}
		if err := writeAfter(out, `],"links":`, append([]link{}, links()...)); err != nil {
			return err
		}
		_ = out.WriteByte('}')
		return out.Flush()
	}}, nil
}

// writeAfter writes a text, and then a value as JSON.
func writeAfter(w io.Writer, before string, v any) error {
	text, err := dispatch.Encode(v)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, before); err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}
