package config

import "reflect"

// KeepFixed sets the keys that need a restart to those of the running configuration, and returns which differ.
func (c *Config) KeepFixed(running *Config) []string {
	return append([]string{}, keepFixed(reflect.ValueOf(running).Elem(), reflect.ValueOf(c).Elem(), "")...)
}

func keepFixed(running, again reflect.Value, path string) (keys []string) {
	for _, f := range fields(again.Type()) {
		key, old, other := join(path, f.key), running.FieldByIndex(f.Index), again.FieldByIndex(f.Index)
		switch {
		case other.Kind() == reflect.Struct:
			keys = append(keys, keepFixed(old, other, key)...)
		case f.Tag.Get("restart") != "" && !reflect.DeepEqual(old.Interface(), other.Interface()):
			keys = append(keys, key)
			other.Set(old)
		}
	}
	return keys
}
