package config

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestConfig_EveryKeyIsDescribed compares the keys with docs/configuration.md: each is there in backquotes, alone or
// after its parents.
func TestConfig_EveryKeyIsDescribed(t *testing.T) {
	document, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keysOf(reflect.TypeFor[Config]()) {
		last := key[strings.LastIndex(key, ".")+1:]
		if text := string(document); !strings.Contains(text, "`"+last+"`") && !strings.Contains(text, "."+last+"`") {
			t.Errorf("%s is not described", key)
		}
	}
}

func keysOf(t reflect.Type) (keys []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for f := range t.Fields() {
		name := f.Tag.Get("yaml")
		if name == "" || name == "-" {
			continue
		}
		below := keysOf(f.Type)
		if len(below) == 0 {
			keys = append(keys, name)
		}
		for _, k := range below {
			keys = append(keys, name+"."+k)
		}
	}
	return keys
}
