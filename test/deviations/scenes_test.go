package deviations

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/eodispatch/eodispatch/test/simulator"
)

// scene is one deviation of a platform and its consequences.
type scene struct {
	does  string           // description of the deviation
	seen  string           // issues on GitHub, or software; "–" if nobody reported it
	acts  func(*stage)     // runs before the job is submitted
	deeds []deed           // performed while the job is watched
	most  time.Duration    // maximum time to watch the job; default 25 minutes
	tells string           // all states that the owner sees, in order
	books simulator.Counts // events at the platform; default one of each except Cancels
	check func(*stage)     // runs after the job was watched
}

// taskScene is a scene with many jobs.
type taskScene struct {
	does, seen string
	at         string // the protocol
	acts       func(*stage)
	deeds      []deed
	tells      string // expected outcome
}

var once = simulator.Counts{Creates: 1, Starts: 1, Runs: 1}

// good is what the owner sees at a correct platform.
const good = "submitted → queued → running → finished"

// allFinish is the outcome of a task at a correct platform.
const allFinish = "6 finished, 0 failed"

// Routes of the two simulators that serve a job.
const (
	createJob  = "POST /jobs"
	startJob   = "POST /jobs/{id}/results"
	readJob    = "GET /jobs/{id}"
	listJobs   = "GET /jobs"
	readResult = "GET /jobs/{id}/results"
	execute    = "POST /processes/{id}/execution"
	dismiss    = "DELETE /jobs/{id}"
)

var openEOScenes = []scene{
	{
		does:  "For a minute after its start, a job is still created.",
		seen:  "openeo-web-editor#381, openeo-python-client 0.49",
		acts:  fares(simulator.Life{Queue: time.Minute, Run: 10 * time.Minute, Lag: time.Minute}),
		tells: good,
	},
	{
		does: "Statuses lag by 15 minutes.", seen: "openeo-geopyspark-driver#902",
		acts:  fares(simulator.Life{Queue: time.Minute, Run: 10 * time.Minute, Lag: 15 * time.Minute}),
		most:  50 * time.Minute,
		tells: good,
	},
	{
		does: "The response to the start is an error, but the job runs.", seen: "openeo-geopyspark-driver#1065",
		acts: fault(simulator.Fault{Route: startJob, Times: 1, After: true, Status: 500, Code: "Internal",
			Message: "Server error"}),
		tells: good, // the broker has received the response, so it reads the status at once
	},
	{
		does: "The response to the start is an error, and statuses lag by 15 minutes.",
		seen: "openeo-geopyspark-driver#1065, #902",
		acts: func(s *stage) {
			fares(simulator.Life{Queue: time.Minute, Run: 10 * time.Minute, Lag: 15 * time.Minute})(s)
			fault(simulator.Fault{Route: startJob, Times: 1, After: true, Status: 500, Code: "Internal"})(s)
		},
		most:  50 * time.Minute,
		tells: "submitted → submitted (submission_in_doubt) → queued → running → finished",
	},
	{
		does:  "The first start fails, and the job stays created.",
		seen:  "openeo-geopyspark-driver#505",
		acts:  fault(simulator.Fault{Route: startJob, Times: 1, Status: 500, Code: "Internal"}),
		most:  50 * time.Minute,
		tells: "submitted → submitted (submission_in_doubt) → submitted → queued → running → finished",
	},
	{
		does: "Every start fails.", seen: "openeo-geopyspark-driver#505",
		acts: func(s *stage) {
			s.giveUp = time.Hour
			fault(simulator.Fault{Route: startJob, Status: 500, Code: "Internal"})(s)
		},
		most:  2 * time.Hour,
		tells: "submitted → submitted (submission_in_doubt) → failed (given_up)", books: simulator.Counts{Creates: 1},
	},
	{
		does: "The start is accepted, but the job stays created.", seen: "openeo-geopyspark-driver#1696",
		acts: fault(simulator.Fault{Route: startJob, Status: 202}), deeds: []deed{{47 * time.Minute, cancels}},
		most:  55 * time.Minute,
		tells: "submitted → submitted (stalled) → canceled", books: simulator.Counts{Creates: 1, Cancels: 1},
	},
	{
		does: "The job stays queued.", seen: "openeo-geopyspark-driver#1696",
		acts: fares(simulator.Life{Queue: 1000 * time.Hour}), deeds: []deed{{47 * time.Minute, cancels}},
		most:  55 * time.Minute,
		tells: "submitted → queued → queued (stalled) → canceled",
		books: simulator.Counts{Creates: 1, Starts: 1, Runs: 1, Cancels: 1},
	},
	{
		does: "The job runs for months.", seen: "openeo-geopyspark-driver#958, #1320",
		acts: fares(simulator.Life{Stuck: true}), deeds: []deed{{47 * time.Minute, cancels}}, most: 55 * time.Minute,
		tells: "submitted → running → running (stalled) → canceled",
		books: simulator.Counts{Creates: 1, Starts: 1, Runs: 1, Cancels: 1},
	},
	{
		does: "For some seconds, the status of a running job is error.", seen: "openeo-geopyspark-driver#298",
		acts:  fares(simulator.Life{Queue: time.Minute, Run: 10 * time.Minute, Flicker: 8 * time.Second}),
		tells: good,
	},
	{
		does: "At first, starts and status reads do not find the job.", seen: "openeo-python-client#802",
		acts: func(s *stage) {
			fault(simulator.Fault{Route: startJob, Times: 2, Status: 404, Code: "JobNotFound"})(s)
			fault(simulator.Fault{Route: readJob, Times: 3, Status: 404, Code: "JobNotFound"})(s)
		},
		tells: "submitted → submitted (platform_busy) → submitted → submitted (not_found_on_platform) → running → " +
			"finished",
	},
	{
		does: "The platform loses the job.", seen: "openeo-python-client#802",
		deeds: []deed{{3 * time.Minute, forgets}},
		tells: "submitted → queued → running → running (not_found_on_platform) → failed (lost_on_platform)",
	},
	{
		does: "The job is not found for three minutes.", seen: "openeo-python-client#802",
		deeds: []deed{{3 * time.Minute, fault(gone("JobNotFound"))}, {6 * time.Minute, mends}},
		tells: "submitted → queued → running → running (not_found_on_platform) → running → finished",
	},
	{
		does: "A proxy in front of the platform responds 404 with an HTML page.", seen: "openeo-python-client#440",
		deeds: []deed{{3 * time.Minute, fault(simulator.Fault{Route: readJob, Status: 404, Form: simulator.HTML})},
			{9 * time.Minute, mends}},
		tells: "submitted → queued → running → running (platform_unavailable) → running → finished",
	},
	{
		does:  "For a while, the status word is not in the standard.",
		seen:  "openeo-python-client 0.49 (queued_for_start)",
		deeds: []deed{{3 * time.Minute, says("queued_for_start")}, {6 * time.Minute, says("")}},
		tells: good,
	},
	{
		does: "The status word is never one of the standard.", seen: "–",
		deeds: []deed{{3 * time.Minute, says("perplexed")}, {47 * time.Minute, cancels}}, most: 55 * time.Minute,
		tells: "submitted → queued → running → running (stalled) → canceled",
		books: simulator.Counts{Creates: 1, Starts: 1, Runs: 1, Cancels: 1},
	},
	{
		does: "The start fails, and then the status word is not in the standard.",
		seen: "openeo-geopyspark-driver#505",
		acts: func(s *stage) { // the queue time is longer than the pause between two reads after an hour
			fault(simulator.Fault{Route: startJob, Times: 1, Status: 500, Code: "Internal"})(s)
			fares(simulator.Life{Queue: 10 * time.Minute, Run: 10 * time.Minute})(s)
		},
		deeds: []deed{{0, says("perplexed")}, {time.Hour, says("")}}, most: 2 * time.Hour,
		tells: "submitted → submitted (submission_in_doubt) → queued → running → finished",
	},
	{
		does: "The platform's clock is five hours slow, and the response to a create is lost.", seen: "–",
		acts:  func(s *stage) { s.openEO.Now = behind(5 * time.Hour); fault(lostCreate)(s) },
		tells: "created (submission_in_doubt) → queued → running → finished",
	},
	{
		does: "The platform's clock is five hours fast, and the response to a create is lost.", seen: "–",
		acts:  func(s *stage) { s.openEO.Now = behind(-5 * time.Hour); fault(lostCreate)(s) },
		tells: "created (submission_in_doubt) → queued → running → finished",
	},
	{
		does: "The platform is busy, and its Retry-After is a date of its wrong clock.", seen: "–",
		acts: func(s *stage) {
			now := time.Now().Add(5 * time.Hour)
			fault(simulator.Fault{Route: createJob, Times: 1, Status: 429, Code: "TooManyRequests",
				Header: map[string]string{"Date": now.UTC().Format(http.TimeFormat),
					"Retry-After": now.Add(3 * time.Minute).UTC().Format(http.TimeFormat)}})(s)
		},
		tells: "created (platform_busy) → submitted → queued → running → finished",
	},
	{
		does:  "The listing is a single page whatever the limit, and the response to a create is lost.",
		seen:  "openeo-api#550",
		acts:  func(s *stage) { s.openEO.Unpaged = true; s.others(500); fault(lostCreate)(s) },
		tells: "created (submission_in_doubt) → queued → running → finished",
		books: simulator.Counts{Creates: 501, Starts: 1, Runs: 1},
	},
	{
		does: "The listing has small pages, and the response to a create is lost.", seen: "–",
		acts:  func(s *stage) { s.openEO.PageMax = 7; s.others(50); fault(lostCreate)(s) },
		tells: "created (submission_in_doubt) → queued → running → finished",
		books: simulator.Counts{Creates: 51, Starts: 1, Runs: 1},
	},
	{
		does: "The response to the create does not name the job.", seen: "–",
		acts: fault(simulator.Fault{Route: createJob, Times: 1, Header: map[string]string{"OpenEO-Identifier": "",
			"Location": ""}}),
		tells: "created (submission_in_doubt) → queued → running → finished",
	},
	{
		does: "The platform runs ten jobs at once, and is full.", seen: "openeo-python-client#838",
		acts: fault(simulator.Fault{Route: startJob, Times: 3, Status: 400, Code: "ConcurrentJobLimit",
			Message: "Job was not started because concurrent job limit (10) is reached."}),
		tells: "submitted → submitted (platform_busy) → queued → running → finished",
	},
	{
		does: "The status of a canceled job is created.", seen: "openEO API 1.2",
		deeds: []deed{{30 * time.Second, cancels}},
		tells: "submitted → queued → canceled", books: simulator.Counts{Creates: 1, Starts: 1, Runs: 1, Cancels: 1},
	},
	{
		does:  "A running job already has results.",
		seen:  "openeo-geopyspark-driver (partial=true)",
		acts:  func(s *stage) { s.openEO.Stubs = true },
		deeds: []deed{{3 * time.Minute, noResults}, {5 * time.Minute, saysFinishedTooSoon}},
		tells: good, check: hasResultsLater,
	},
	{
		does: "Links to results are signed and expire.", seen: "openEO API 1.2",
		acts:  func(s *stage) { s.openEO.LinkLife = 10 * time.Minute },
		tells: good, check: (*stage).linksHold,
	},
	{
		does: "Results have the numbers NaN and Infinity, which are null here.",
		seen: "openeo-geopyspark-driver#471, #87",
		acts: fault(simulator.Fault{Route: readResult,
			Body: `{"type": "Collection", "stac_version": "1.0.0", "id": "NaN", "links": [],
			"assets": {"a.tif": {"href": "http://openeo.example/a.tif", "nodata": NaN,
				"statistics": {"maximum": -Infinity}}}}`}),
		tells: good, check: hasResultsWith(`"nodata":null`, `"maximum":null`, `"id":"NaN"`),
	},
	{
		does: "The assets of results are only at the Items that they link to.",
		seen: "openeo-python-client#931, openeo-geopyspark-driver#1765",
		acts: func(s *stage) {
			s.openEO.Items = true // what the link of the first response leads to
			fault(simulator.Fault{Route: readResult, Times: 1,
				Body: `{"type": "Collection", "stac_version": "1.1.0", "id": "at the items", "assets": {},
				"links": [{"rel": "item", "href": "results", "type": "application/geo+json"}]}`})(s)
		},
		tells: good, check: hasResultsWith(`"id":"at the items"`, `"assets":{"`, `.tif`),
	},
}

var ogcScenes = []scene{
	{
		does: "The response to the execution contains only the job's address.", seen: "pygeoapi#2105",
		acts:  fault(simulator.Fault{Route: execute, Times: 1, Body: "null"}),
		tells: good,
	},
	{
		does: "The response to the execution contains only the job's identifier.", seen: "–",
		acts:  fault(simulator.Fault{Route: execute, Times: 1, Header: map[string]string{"Location": ""}}),
		tells: good,
	},
	{
		does: "The job's address is relative.", seen: "old ADES",
		acts:  fault(simulator.Fault{Route: execute, Times: 1, RelativeLocation: true}),
		tells: good,
	},
	{
		does: "The job is not found at first.", seen: "pygeoapi#1672, ZOO-Project#72",
		acts:  fault(simulator.Fault{Route: readJob, Times: 2, Status: 404, Code: "no-such-job"}),
		tells: "submitted → submitted (not_found_on_platform) → running → finished",
	},
	{
		does: "The server loses its jobs when it restarts.", seen: "pygeoapi",
		deeds: []deed{{3 * time.Minute, forgets}},
		tells: "submitted → queued → running → running (not_found_on_platform) → failed (lost_on_platform)",
	},
	{
		does: "A proxy in front of the platform responds 404 with an HTML page.", seen: "openeo-python-client#440",
		deeds: []deed{{3 * time.Minute, fault(simulator.Fault{Route: readJob, Status: 404, Form: simulator.HTML})},
			{9 * time.Minute, mends}},
		tells: "submitted → queued → running → running (platform_unavailable) → running → finished",
	},
	{
		does: "Status words are those of WPS.", seen: "WPS-3 servers, old ADES",
		deeds: []deed{{3 * time.Minute, says("ProcessPaused")}, {5 * time.Minute, says("ProcessStarted")},
			{11 * time.Minute, says("ProcessSucceeded")}},
		tells: good,
	},
	{
		does: "For a while, the status word is not in the standard.", seen: "–",
		deeds: []deed{{3 * time.Minute, says("perplexed")}, {6 * time.Minute, says("")}},
		tells: good,
	},
	{
		does: "For some seconds, the status of a running job is failed.", seen: "–",
		acts:  fares(simulator.Life{Queue: time.Minute, Run: 10 * time.Minute, Flicker: 8 * time.Second}),
		tells: good,
	},
	{
		does: "Statuses lag by 15 minutes.", seen: "–",
		acts:  fares(simulator.Life{Queue: time.Minute, Run: 10 * time.Minute, Lag: 15 * time.Minute}),
		most:  50 * time.Minute,
		tells: good,
	},
	{
		does:  "The platform runs the process synchronously, although a job was requested.",
		seen:  "pygeoapi#2231, weaver#545",
		acts:  func(s *stage) { s.ogc.Sync = true; fares(simulator.Life{Run: 5 * time.Second})(s) },
		tells: "finished", check: hasResults,
	},
	{
		does: "The response to the execution is lost.", seen: "–",
		acts: fault(lostExecution), deeds: []deed{{15 * time.Minute, cancels}}, most: 16 * time.Minute,
		tells: "created (submission_in_doubt) → unknown (submission_unknown) → canceled (submission_unknown)",
	},
	{
		does: "The response to the execution is an error, but the job runs.", seen: "–",
		acts:  fault(simulator.Fault{Route: execute, Times: 1, After: true, Status: 500, Code: "InternalError"}),
		deeds: []deed{{15 * time.Minute, cancels}}, most: 16 * time.Minute,
		tells: "created (submission_in_doubt) → unknown (submission_unknown) → canceled (submission_unknown)",
	},
	{
		does: "The response to the execution is lost, and submit is at_least_once.", seen: "–",
		acts:  func(s *stage) { s.atLeastOnce = true; fault(lostExecution)(s) },
		tells: "created (submission_in_doubt) → queued → running → finished",
		books: simulator.Counts{Creates: 2, Starts: 2, Runs: 2},
	},
	{
		does: "The response to the execution is lost, and the listing takes minutes or breaks off.",
		seen: "ZOO-Project#133, #111",
		acts: func(s *stage) {
			fault(lostExecution)(s)
			fault(simulator.Fault{Route: listJobs, Times: 3, Latency: 2 * time.Minute})(s)
			fault(simulator.Fault{Route: listJobs, Times: 3, Status: 504, Form: simulator.HTML})(s)
		},
		deeds: []deed{{40 * time.Minute, cancels}},
		most:  50 * time.Minute,
		tells: "created (submission_in_doubt) → unknown (submission_unknown) → canceled (submission_unknown)",
	},
	{
		does: "The platform cannot cancel jobs.", seen: "servers without dismiss",
		acts:  fault(simulator.Fault{Route: dismiss, Status: 405, Code: "not-supported"}),
		deeds: []deed{{3 * time.Minute, cancels}},
		tells: "submitted → queued → running → running (cancel_unsupported) → finished",
	},
	{
		does: "The job runs for months.", seen: "–",
		acts: fares(simulator.Life{Stuck: true}), deeds: []deed{{47 * time.Minute, cancels}}, most: 55 * time.Minute,
		tells: "submitted → running → running (stalled) → canceled",
		books: simulator.Counts{Creates: 1, Starts: 1, Runs: 1, Cancels: 1},
	},
	{
		does: "The platform's clock is five hours slow.", seen: "–",
		acts:  func(s *stage) { s.ogc.Now = behind(5 * time.Hour) },
		tells: good, check: hasResults,
	},
	{
		does: "The platform's clock is five hours fast.", seen: "–",
		acts:  func(s *stage) { s.ogc.Now = behind(-5 * time.Hour) },
		tells: good, check: hasResults,
	},
	{
		does: "The platform is down for six minutes, behind a proxy.", seen: "openeo-python-client#440",
		deeds: []deed{{3 * time.Minute, fault(simulator.Fault{Status: 502, Form: simulator.HTML})},
			{9 * time.Minute, mends}},
		tells: "submitted → queued → running → running (platform_unavailable) → running → finished",
	},
	{
		does: "Inputs are lists of files, boxes must name their reference system, and results are a catalogue.",
		seen: "ZOO-Project of July 2026",
		acts: runs("scenes",
			`{"images": [{"href": "https://data.example/a.tif", "type": "image/tiff"}, {"value": "aGVsbG8=", "mediaType": "image/jp2"}, "aGVsbG8="],
			"area": {"west": 5, "south": 51, "east": 5.1, "north": 51.1}, "levels": [1, 2]}`),
		tells: good, check: func(s *stage) {
			sent(s,
				`{"area":{"bbox":[5,51,5.1,51.1],"crs":"EPSG:4326"},"images":[{"href":"https://data.example/a.tif","type":"image/tiff"},{"value":"aGVsbG8=","mediaType":"image/jp2"},"aGVsbG8="],"levels":[1,2]}`)
			hasAsset(s, "5,51,5.1,51.1")
		},
	},
	{
		does: "Optional inputs are lists of at most one value, and results are references.",
		seen: "Weaver 6.15", acts: runs("smooth",
			`{"bbox": {"west": 5, "south": 51, "east": 5.1, "north": 51.1, "crs": "EPSG:4326"}, "seconds": 4, "mode": ["max"]}`),
		tells: good, check: func(s *stage) {
			sent(s, `{"bbox":{"bbox":[5,51,5.1,51.1]},"mode":["max"],"seconds":4}`)
			hasAsset(s, "")
		},
	},
	{
		does: "Results have the numbers NaN and Infinity, which are null here.",
		seen: "datacube-explorer#1168",
		acts: fault(simulator.Fault{Route: readResult,
			Body: `{"out": {"type": "Collection", "stac_version": "1.0.0", "id": "NaN", "links": [],
			"assets": {"a.tif": {"href": "http://ogc.example/a.tif", "nodata": NaN,
				"statistics": {"maximum": Infinity}}}}}`}),
		tells: good, check: hasResultsWith(`"nodata":null`, `"maximum":null`, `"id":"NaN"`),
	},
	{
		does: "The cause of a failure is in a list of exceptions.", seen: "weaver#265",
		acts: fault(simulator.Fault{Route: readJob, Skip: 0,
			Body: `{"jobID": "a", "type": "process", "status": "failed", "message": "Job failed.",
			"exceptions": [{"Code": "RuntimeError", "Locator": "run", "Text": "There is no scene."}]}`}),
		tells: "submitted → failed", check: failedBecause("There is no scene."),
	},
}

// taskScenes use a task of six jobs, whose statuses are read from listings.
var taskScenes = []taskScene{
	{
		does: "The listing is a single page with jobs of others, too.", seen: "openeo-api#550", at: "openeo",
		acts:  func(s *stage) { s.openEO.Unpaged = true; s.others(300) },
		tells: allFinish,
	},
	{
		does: "The listing has pages of two jobs.", seen: "–", at: "openeo",
		acts:  func(s *stage) { s.openEO.PageMax = 2 },
		tells: allFinish,
	},
	{
		does: "The listing shows new jobs ten minutes late.", seen: "–", at: "openeo",
		acts:  fares(simulator.Life{Queue: time.Minute, Run: 10 * time.Minute, Unlisted: 10 * time.Minute}),
		tells: allFinish,
	},
	{
		does: "The listing no longer shows one job.", seen: "openeo-python-client#802", at: "openeo",
		deeds: []deed{{3 * time.Minute, forgets}},
		tells: "5 finished, 1 failed",
	},
	{
		does: "For a while, no status word in the listing is in the standard.", seen: "–", at: "openeo",
		deeds: []deed{{3 * time.Minute, says("perplexed")}, {20 * time.Minute, says("")}},
		tells: allFinish,
	},
	{
		does: "The listing always fails.", seen: "ZOO-Project#133", at: "openeo",
		acts:  fault(simulator.Fault{Route: listJobs, Status: 504, Form: simulator.HTML}),
		tells: allFinish,
	},
	{
		does: "The listing ignores the limit, and has pages of two jobs.", seen: "OGC API - Processes 1.0",
		at: "ogc", acts: func(s *stage) { s.ogc.PageMax = 2 },
		tells: allFinish,
	},
	{
		does: "The platform has no listing.", seen: "servers without job-list", at: "ogc",
		acts:  fault(simulator.Fault{Route: listJobs, Status: 404, Code: "NotFound"}),
		tells: allFinish,
	},
	{
		does: "The listing takes minutes.", seen: "ZOO-Project#133", at: "ogc",
		acts:  fault(simulator.Fault{Route: listJobs, Latency: 2 * time.Minute}),
		tells: allFinish,
	},
}

// Actions of platforms and owners.

func fault(f simulator.Fault) func(*stage) { return func(s *stage) { s.faults.Add(f) } }

func fares(l simulator.Life) func(*stage) { return func(s *stage) { s.platform.SetLife(l) } }

// says makes the platform report a status word for all watched jobs; "" ends that.
func says(word string) func(*stage) {
	return func(s *stage) {
		for _, ref := range s.refs() {
			if !s.platform.SetStatus(ref, word) {
				s.Errorf("the platform has no job %q", ref)
			}
		}
	}
}

// forgets makes the platform lose the first watched job.
func forgets(s *stage) {
	if refs := s.refs(); !s.platform.Forget(refs[0]) {
		s.Errorf("the platform has no job %q", refs[0])
	}
}

// mends removes all faults except the latency of responses.
func mends(s *stage) { s.faults.Set(simulator.Fault{Latency: 20 * time.Millisecond}) }

// cancels cancels the job as its owner.
func cancels(s *stage) {
	var now shown
	s.ask(200, "POST", fmt.Sprintf("/unit_jobs/%d/cancel", s.job), "", &now)
}

func gone(code string) simulator.Fault {
	return simulator.Fault{Route: readJob, Status: 404, Code: code}
}

var lostCreate = simulator.Fault{Route: createJob, Times: 1, After: true, Cut: true}

func behind(d time.Duration) func() time.Time { return func() time.Time { return time.Now().Add(-d) } }

var lostExecution = simulator.Fault{Route: execute, Times: 1, After: true, Cut: true}

func hasResults(s *stage) {
	if got := s.results(); !strings.Contains(string(got), `"type":"Collection"`) {
		s.Errorf("results: %s", got)
	}
}

// runs has the job run another process, with these parameters. The platform refuses what is below a namespace, like
// ZOO-Project.
func runs(process, parameters string) func(*stage) {
	return func(s *stage) {
		s.ogc.ZOO = true
		s.request = ogcRequestOf(process, parameters)
	}
}

// sent checks the inputs that the platform received.
func sent(s *stage, want string) {
	var body struct{ Inputs json.RawMessage }
	if err := json.Unmarshal(s.ogc.Sent(s.read().Ref), &body); err != nil || string(body.Inputs) != want {
		s.Errorf("the platform received %s, want %s: %v", body.Inputs, want, err)
	}
}

// hasAsset checks that the results have one file and, unless it is "", this bounding box.
func hasAsset(s *stage, bbox string) {
	var results struct {
		Type   string
		Assets map[string]struct{ Href string }
		Extent struct {
			Spatial struct{ BBox json.RawMessage }
		}
	}
	if err := json.Unmarshal(s.results(), &results); err != nil || results.Type != "Collection" ||
		len(results.Assets) != 1 || !strings.Contains(string(results.Extent.Spatial.BBox), bbox) {
		s.Errorf("results: %+v, %v", results, err)
	}
}

// hasResultsWith checks that the results contain texts.
func hasResultsWith(texts ...string) func(*stage) {
	return func(s *stage) {
		got := string(s.results())
		for _, text := range texts {
			if !strings.Contains(got, text) {
				s.Errorf("no %s in the results: %s", text, got)
			}
		}
	}
}

// failedBecause checks the reason of a failure.
func failedBecause(reason string) func(*stage) {
	return func(s *stage) {
		var job struct{ Failure string }
		if s.ask(200, "GET", fmt.Sprintf("/unit_jobs/%d", s.job), "", &job); job.Failure != reason {
			s.Errorf("failed because %q", job.Failure)
		}
	}
}

func hasResultsLater(s *stage) {
	pass(15 * time.Minute)
	hasResults(s)
}

func saysFinishedTooSoon(s *stage) {
	says("finished")(s)
	pass(15 * time.Second)
	var late struct {
		Code string `json:"error_code"`
	}
	if s.ask(503, "GET", fmt.Sprintf("/unit_jobs/%d/results", s.job), "", &late); late.Code != "PLATFORM_BUSY" {
		s.Errorf("late results: %q", late.Code)
	}
}

func noResults(s *stage) {
	if got := s.results(); string(got) != "null" {
		s.Errorf("results: %s", got)
	}
}

// linksHold checks that the links of the results work. It requests the results twice, the second time after the first
// links have expired.
func (s *stage) linksHold() {
	for range 2 {
		var results struct {
			Assets map[string]struct{ Href string }
		}
		if err := json.Unmarshal(s.results(), &results); err != nil || len(results.Assets) != 1 {
			s.Errorf("%d assets, %v", len(results.Assets), err)
		}
		for _, a := range results.Assets {
			w := httptest.NewRecorder()
			s.openEO.ServeHTTP(w, httptest.NewRequest("GET", a.Href, nil))
			if w.Code != 200 {
				s.Errorf("%s: %d %s", a.Href, w.Code, w.Body)
			}
		}
		pass(20 * time.Minute)
	}
}
