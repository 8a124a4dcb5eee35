package dispatch

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The bounds of annotations. Texts are counted in characters.
const (
	MostLabels   = 32
	LongestLabel = 255  // of a value
	LongestNote  = 2000 // of a note
)

// LabelKey matches the keys of labels: 1 to 63 characters, so that a label can be written as key=value.
var LabelKey = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$`)

// BadLabelKey is what is wrong with a text that is no key of a label.
const BadLabelKey = "The key of a label has 1 to 63 letters, digits and the characters . _ / -, and begins and ends " +
	"with a letter or digit."

// Annotations are what the owner of a job or a task wrote on it, to find it again. Nothing acts on them. Only owners
// change them. The jobs of a task do not have those of the task.
type Annotations struct {
	Labels map[string]string `json:"labels,omitempty"`
	Note   string            `json:"note,omitempty"`
}

// Empty reports whether there are neither labels nor a note.
func (a Annotations) Empty() bool { return len(a.Labels) == 0 && a.Note == "" }

// shownInFull reports whether a text is one line in which every character is seen, in the order in which it is written.
// Characters without width and marks of direction, of category Cf, would let two names look alike, or show the text
// beside a name in another order. The two joiners are allowed: Persian and emoji are written with them.
func shownInFull(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && r != '\u200c' && r != '\u200d'
	})
}

// Check returns Invalid for annotations that exceed the bounds, or that cannot be shown in one line.
func (a Annotations) Check() error {
	wrong := func(text string, path ...any) error { return InvalidBody("dispatch.Annotations", text, path...) }
	if len(a.Labels) > MostLabels {
		return wrong(fmt.Sprintf("There are %d labels. At most %d are possible.", len(a.Labels), MostLabels), "labels")
	}
	for _, key := range slices.Sorted(maps.Keys(a.Labels)) {
		switch value := a.Labels[key]; {
		case !LabelKey.MatchString(key):
			return wrong(BadLabelKey, "labels", Shortened(key))
		case utf8.RuneCountInString(value) > LongestLabel:
			return wrong(fmt.Sprintf("The value of a label has at most %d characters.", LongestLabel), "labels", key)
		case !shownInFull(value):
			return wrong("The value of a label is one line of text without invisible characters.", "labels", key)
		}
	}
	switch {
	case utf8.RuneCountInString(a.Note) > LongestNote:
		return wrong(fmt.Sprintf("A note has at most %d characters.", LongestNote), "note")
	case !utf8.ValidString(a.Note) || strings.ContainsRune(a.Note, 0):
		return wrong("A note is text without NUL characters.", "note")
	}
	return nil
}

// LabelMatch selects what has a label with a value. The zero value selects all.
type LabelMatch struct{ Key, Value string }

// ParseLabel reads a label that is written as key=value.
func ParseLabel(text string) (LabelMatch, bool) {
	key, value, ok := strings.Cut(text, "=")
	return LabelMatch{key, value}, ok && LabelKey.MatchString(key)
}

// Selects reports whether m selects what has these labels.
func (m LabelMatch) Selects(labels map[string]string) bool {
	value, ok := labels[m.Key]
	return m == LabelMatch{} || ok && value == m.Value
}

// AnnotationChange is a change of annotations: a JSON merge patch (RFC 7396) of them.
type AnnotationChange struct {
	Replace bool               // all labels are removed before
	Labels  map[string]*string // nil: the label is removed
	Note    *string            // nil: the note stays
}

// Apply returns the annotations after the change. Invalid if they exceed the bounds then.
func (c AnnotationChange) Apply(a Annotations) (Annotations, error) {
	labels := map[string]string{}
	if !c.Replace {
		maps.Copy(labels, a.Labels)
	}
	for key, value := range c.Labels {
		if delete(labels, key); value != nil {
			labels[key] = *value
		}
	}
	if a.Labels = labels; len(labels) == 0 {
		a.Labels = nil
	}
	if c.Note != nil {
		a.Note = *c.Note
	}
	return a, a.Check()
}
