# make test runs everything and installs what it needs, make bench what it measures with; page, build and demo need Node 20 or newer, which
# they install with Python's pip where the system has none; the other targets need Go alone.
# The programs that make check runs are pinned by tools/go.mod, their hashes by tools/go.sum.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

PAGE = $(shell find web/src web/earth/make.js web/index.html web/*.json web/*.ts -type f 2>/dev/null)

.PHONY: test test-quick test-full build image release page demo check fuzz bench year fire soak import failover charts standards generate ready

# test runs everything that a change can break. It is to take twelve minutes on two idle cores.
test: ready page
	@$(SCRATCH); \
	$(GOTEST) $(RACE) $(RACED) & raced=$$!; \
	$(STATIC) $(GOTEST) -p $$(($$(nproc) + 1)) $(LONGEST) $$(go list ./... | grep -vxF "$$(go list $(RACED) $(LONGEST))") && \
	$(STATIC) $(GOTEST) -run "$$(bash .ci/left-out $(LEFT_OUT))" $(LEFT_OUT) && plain=0 || plain=1; \
	wait $$raced && exit $$plain

# test-full, before a release, plays in full what test plays a part of: crashes, histories, thousands of watchers, an hour
# of work; suites of the standards, a cluster under Patroni, a large import, a year of queues, Helm charts, fuzz targets.
test-full: test fire soak failover standards import year charts fuzz

# GOTEST compiles as a release is built, so that clones share what is compiled. It leaves out go vet, which make check
# runs, and tables for debuggers, which take a third of the time to link. More tests run beside each other than there are
# cores, as those that call t.Parallel mostly wait for programs, browsers, leases and intervals.
GOTEST = go test -trimpath -vet=off -ldflags=-w -shuffle=on -timeout 30m -p $$(nproc) -parallel 6

# STATIC compiles without C, as a release is built: the same packages serve check, build, and the programs that tests start.
STATIC = CGO_ENABLED=0

# SCRATCH keeps the temporary files of tests in memory where 8 GiB of it are free: hundreds of databases are created and removed, which takes a
# third of the system's time there. What the compiler writes stays on the disk.
SCRATCH = export GOTMPDIR=$${TMPDIR:-/tmp}; \
	if [ "$$(df -Pk /dev/shm 2>/dev/null | awk 'END {print $$4}')" -gt 8388608 ] 2>/dev/null; then \
	  TMPDIR=$$(mktemp -d /dev/shm/eodispatch.XXXXXX) && export TMPDIR && chmod 755 "$$TMPDIR" && trap 'rm -rf "$$TMPDIR"' EXIT; \
	fi

# RACE compiles the tests with the race detector, except SQLite as translated into Go, and its C library: their memory is
# not Go's, which is all that the detector watches, and they take half of the time with it.
RACE = -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc/...=-race=false

# RACED are the packages in which goroutines share memory. The others run without the detector, which makes them five
# times as slow and finds nothing there. Both groups run at once, as tests wait for databases, browsers and clocks for
# more than half of their time. What takes longest begins first.
RACED = ./store ./api/... ./broker ./identity ./visit/... ./catalogue/... ./client/... ./cmd/eodispatch \
  ./dispatch/bounds ./dispatch/hub ./notify/... ./observe/... ./platform/upstream
# LEFT_OUT have tests that the detector leaves out (test/detector): long simulations and plans of statements, of which
# shorter tests say as much about concurrency. They run without it.
LEFT_OUT = ./store ./api ./broker ./visit ./cmd/eodispatch
LONGEST = ./test/crashes ./test/page ./test/real/... ./test/program ./test/histories ./test/deviations

# test-quick runs what needs Go alone, without long simulations. It is to take 90 seconds on two idle cores, once it is
# compiled.
test-quick:
	$(STATIC) $(GOTEST) -short -p $$(($$(nproc) + 1)) ./api ./broker ./platform/... ./dispatch/... ./visit ./identity ./catalogue/... ./grid ./config ./client/... .

# ready installs PostgreSQL's server, a C compiler for the race detector, a browser, and the real servers of test/real, if absent.
ready:
	@bash test/real/install.sh

# page builds the page into web/dist, from the packages in web/package-lock.json, which npm checks by their hashes.
page: web/dist/index.html

web/node_modules/.package-lock.json: web/package-lock.json
	cd web && bash ../.ci/node npm ci --no-audit --no-fund

web/openapi/node_modules/.package-lock.json: web/openapi/package-lock.json
	cd web/openapi && bash ../../.ci/node npm ci --no-audit --no-fund

web/dist/index.html: web/node_modules/.package-lock.json $(PAGE)
	rm -rf web/dist/page web/dist/index.html
	cd web && bash ../.ci/node npm run build
	@touch $@

# PROGRAM compiles the program, naming the packages as it goes: SQLite alone takes a minute the first time.
PROGRAM = CGO_ENABLED=0 go build -v -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/eodispatch ./cmd/eodispatch

# demo builds the page if that is possible, and runs the demonstration: on a terminal until Ctrl-C, else to its end. A job of its own
# gets the Ctrl-C, so that make ends as the demonstration does.
demo:
	@$(MAKE) -s page || echo "The page could not be built, for the reason above; the demonstration runs without it." >&2
	@echo "compiling bin/eodispatch; the first time takes a few minutes" >&2
	@$(PROGRAM)
	@if [ -t 1 ]; then bash -c 'set -m; bin/eodispatch demo --keep; exit $$?'; else bin/eodispatch demo; fi

build: page
	$(PROGRAM)

# image writes an OCI image for amd64 and arm64 into dist/image, which skopeo, podman or umoci read. It needs no daemon and no base image, and the
# same commit gives the same bytes.
image: page
	rm -f dist/eodispatch-*
	SYSTEMS="linux/amd64 linux/arm64" bash deploy/release.sh "$(VERSION)" dist programs image

# release makes programs for three systems, their SBOMs, the image, the Python package, notes from the changelog, and checksums, in dist/release:
# make release VERSION=0.2.0. The same commit gives the same bytes. It publishes nothing.
release: page
	@bash test/real/install.sh hatchling
	rm -rf dist/release
	bash deploy/release.sh "$(VERSION)" dist/release

# TYPES writes the types of the page from the OpenAPI document.
TYPES = $(STATIC) go run -trimpath ./cmd/eodispatch reference openapi | bash .ci/node node web/openapi/generate.js

check: web/node_modules/.package-lock.json web/openapi/node_modules/.package-lock.json
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	cd web && bash ../.ci/node npm run check
	$(STATIC) go vet -trimpath ./...
	$(STATIC) go vet -trimpath -tags failpoints ./cmd/eodispatch
	$(STATIC) go vet -trimpath -tags failover ./test/crashes
	for system in windows darwin; do $(STATIC) GOOS=$$system go build -trimpath -o /dev/null ./cmd/eodispatch || exit 1; done
	@$(STATIC) go run -trimpath ./cmd/eodispatch reference markdown | diff - docs/cli.md || { echo "docs/cli.md does not match the commands: run make generate"; exit 1; }
	@$(TYPES) | diff - web/src/api/schema.ts || { echo "web/src/api/schema.ts does not match the OpenAPI document: run make generate"; exit 1; }
	$(STATIC) GOFLAGS=-trimpath go tool -modfile=tools/go.mod staticcheck ./...
	@bash .ci/vulnerabilities

# fuzz runs each fuzz target for FUZZTIME, one after the other, and fails with the first that finds something. make test runs their seeds.
# Making an input that is merely interesting smaller takes a second at most; go test takes up to a minute for each. A target that was in the
# middle of an input when its time ended fails with "context deadline exceeded" and no failing input: that found nothing.
FUZZTIME ?= 30s
fuzz:
	@set -e; said=$$(mktemp); trap 'rm -f "$$said"' EXIT; \
	for folder in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u); do \
	  for target in $$(go test -list '^Fuzz' $$folder | grep '^Fuzz'); do \
	    echo "$$folder $$target"; \
	    go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s $$folder >"$$said" 2>&1 || \
	      { grep -q '^    context deadline exceeded$$' "$$said" && ! grep -q 'Failing input' "$$said"; } || { cat "$$said"; exit 1; }; \
	    grep execs "$$said" | tail -n 1; \
	  done; \
	done

bench:
	@bash test/real/install.sh shapely world-atlas openeo-0.53
	@go test -p 1 -run '^$$' -bench Performance -benchtime 1x -timeout 90m ./test/performance ./cmd/eodispatch ./store ./notify/events ./deploy ./test/real
	@go test -p 1 -run '^$$' -bench Performance -benchtime 1s ./observe/telemetry ./observe/tracing

# year simulates a year of 1,000 platforms with 10,000,000 jobs, in about a minute of CPU time; make test simulates 10 platforms.
year:
	go test -count=1 -v -run TestYear ./visit -year

# fire kills, freezes and restarts the program at every point, on both databases, has thousands watch replicas that work,
# fail and recover, and plays twenty times as many random histories; make test plays a part of it.
fire: ready
	CI=true go test -count=1 -timeout 60m -v ./test/crashes -full
	go test -count=1 -timeout 25m ./test/histories -histories 1000

# soak has users submit, cancel and delete jobs for an hour, watched by others, while a replica is killed and a platform
# fails: every end is seen, no job is lost or runs twice, and memory is as after a start when clients have left.
soak: ready
	CI=true go test -count=1 -timeout 100m -v -run TestWatchers_SeeEveryEnd ./test/crashes -soak 1h

# import takes over 100,000 jobs from a real MariaDB and says how long that took; make test takes over 2,000.
import: ready
	CI=true go test -count=1 -timeout 20m -v -run TestImport_FromMariaDB ./test/real -records 100000

# failover has the primary of a cluster of PostgreSQL under Patroni killed, frozen and switched over while replicas work; make test plays the
# promotion of a standby.
failover: ready
	@bash test/real/install.sh patroni
	CI=true go test -count=1 -timeout 30m -v -tags failover -run TestFailover_OfPatroni ./test/crashes

# charts lints and renders deploy/chart by helm, which is compiled from its module in two minutes, checks what comes out against the types of Kubernetes, and writes
# deploy/testdata/chart.yaml, from which make test starts the program. With EODISPATCH_STANDARDS it runs the program under the chart of the APEx Dispatch API.
charts:
	cd test/charts && go vet . && go test -count=1 -v . -update

# standards runs openeo-test-suite, and schemathesis with thousands of requests, against the openEO API; make test runs a short form.
# EODISPATCH_STANDARDS names the folder of the standards' documents.
standards:
	@bash test/real/install.sh openeo-suite
	CI=true go test -count=1 -timeout 30m -v -run TestOpenEOFacade_Suites ./test/real -suite

generate: web/openapi/node_modules/.package-lock.json
	go run ./cmd/eodispatch reference markdown > cli.md.new && mv cli.md.new docs/cli.md
	go run ./cmd/eodispatch reference settings > settings.new && \
	  sed -e '/^<!-- Generated/r settings.new' -e '/^<!-- Gen/,/^<!-- End/{//!d;}' docs/configuration.md > configuration.md.new && \
	  rm settings.new && mv configuration.md.new docs/configuration.md
	$(TYPES) > schema.ts.new && mv schema.ts.new web/src/api/schema.ts
