package broker

import (
	"fmt"
	"testing"
	"time"
)

func TestLinksHold_EachKindOfSignature(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	in := func(d time.Duration) int64 { return now.Add(d).Unix() }
	const asset = `{"assets":{"a":{"href":%q}}}`
	for name, c := range map[string]struct {
		raw  string
		want time.Duration
	}{
		"no assets": {`{}`, longestKept},
		"no JSON":   {`x`, 0},
		"plain":     {fmt.Sprintf(asset, "https://x.example/a.tif"), longestKept},
		"data":      {fmt.Sprintf(asset, "data:text/plain,a?b=1"), longestKept},
		"S3": {fmt.Sprintf(asset,
			"https://x.example/a?X-Amz-Date=20260301T113000Z&X-Amz-Expires=3600&X-Amz-Signature=x"), 30 * time.Minute},
		"Google": {fmt.Sprintf(asset, "https://x.example/a?X-Goog-Date=20260301T120000Z&X-Goog-Expires=60"),
			time.Minute},
		"Azure": {fmt.Sprintf(asset, "https://x.example/a?se=2026-03-01T13%3A00%3A00Z&sig=x"), time.Hour},
		"openEO": {fmt.Sprintf(asset, fmt.Sprintf("https://x.example/a?expires=%d&sig=x", in(2*time.Hour))),
			2 * time.Hour},
		"S3, old": {fmt.Sprintf(asset, fmt.Sprintf("https://x.example/a?Expires=%d&Signature=x", in(time.Hour))),
			time.Hour},
		"ended":            {fmt.Sprintf(asset, fmt.Sprintf("https://x.example/a?Expires=%d", in(-time.Hour))), 0},
		"unknown":          {fmt.Sprintf(asset, "https://x.example/a?token=x"), shortKept},
		"no number":        {fmt.Sprintf(asset, "https://x.example/a?expires=soon"), shortKept},
		"said of an asset": {`{"assets":{"a":{"href":"https://x.example/a","expires":"2026-03-01T12:10:00Z"},"b":{"href":"https://x.example/b","expires":"2026-03-01T12:20:00Z"}}}`, 10 * time.Minute},
		"said of all": {`{"expires":"2026-03-01T12:05:00Z","assets":{"a":{"href":"https://x.example/a"}}}`,
			5 * time.Minute},
		"in years": {fmt.Sprintf(asset, fmt.Sprintf("https://x.example/a?expires=%d", in(1e4*time.Hour))), longestKept},
	} {
		if got := linksHold([]byte(c.raw), now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
