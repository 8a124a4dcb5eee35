package facade

import "testing"

func TestFirstUsualFormat(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"PNG", "GTiff", "netCDF"}, "gtiff"},
		{[]string{"netCDF", "GTiff"}, "netcdf"},
		{[]string{"PNG", ""}, ""},
		{nil, ""},
	} {
		if got := FirstUsualFormat(c.names); got != c.want {
			t.Errorf("%q: %q, want %q", c.names, got, c.want)
		}
	}
}
