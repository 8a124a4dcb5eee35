#!/usr/bin/env bash
# Makes what a release consists of in a folder: programs with a description of what they contain (SBOM), the image, manual pages, the Python
# package with and without the program, notes from the changelog, and checksums. The same commit gives the same bytes. It publishes nothing.
# It needs Go, hatchling and the commands of GNU.
#
#   release.sh VERSION FOLDER [PART...]   all parts, or only some of them: the functions below
#
# SYSTEMS are those to build for, without this variable all.
set -euo pipefail
version=${1:?VERSION is missing} folder=$(mkdir -p "${2:?FOLDER is missing}" && cd "$2" && pwd)
shift 2
cd "$(dirname "${BASH_SOURCE[0]}")/.."
read -ra systems <<<"${SYSTEMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64}"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath"
umask 022 # modes of files are part of archives
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "release: $*" >&2
  exit 1
}

# named FILE LINE: fails unless a file has a line with the version.
named() { grep -qxF "$2" "$1" || fail "$1 does not have the line '$2': name the version there first${3:-}"; }

# notes: writes the section of the changelog. Versions of the chart, whose default image would be another one, and of the Python package are the same.
notes() {
  local number=${version#v} text
  text=$(awk -v number="$number" '/^## / { found = $2 == number; next } found && (begun = begun || NF)' CHANGELOG.md)
  [[ -n $text ]] || fail "CHANGELOG.md has no section '$number': name the version there first"
  echo "$text" >"$folder/NOTES.md"
  if [[ $number == Unreleased ]]; then return; fi
  named deploy/chart/Chart.yaml "version: $number" ", and run make charts"
  named deploy/chart/Chart.yaml "appVersion: \"$number\"" ", and run make charts"
  named python/pyproject.toml "version = \"$number\""
}

# file SYSTEM/ARCHITECTURE: the path of a program.
file() {
  echo "$folder/eodispatch-$version-${1/\//-}$([[ $1 != windows/* ]] || echo .exe)"
}

programs() {
  local system program lock=
  [[ ! -e web/dist/index.html ]] || lock=$PWD/web/package-lock.json
  for system in "${systems[@]}"; do
    program=$(file "$system")
    GOOS=${system%/*} GOARCH=${system#*/} go build -buildvcs=false -ldflags "-s -w -buildid= -X main.version=$version" -o "$program" ./cmd/eodispatch
    go run -C tools ./sbom -version "$version" -created "$SOURCE_DATE_EPOCH" -lock "$lock" "$program" >"$program.cdx.json"
  done
}

# image: packs the programs for Linux.
image() {
  local system files=()
  for system in "${systems[@]}"; do
    [[ $system != linux/* ]] || files+=("$(file "$system")")
  done
  rm -rf "$folder/image"
  go run -C tools ./image -out "$folder/image" -version "$version" -revision "$(git rev-parse HEAD)" -created "$SOURCE_DATE_EPOCH" "${files[@]}"
}

# manuals: packs the manual pages of all commands, to be unpacked in /usr/local/share.
manuals() {
  go run ./cmd/eodispatch reference man --to "$scratch/man/man1"
  tar -C "$scratch" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -c man | gzip -9n >"$folder/eodispatch-$version-man.tar.gz"
}

# wheels: builds the Python package as sources, as a wheel for every system, and for each system as a wheel with the program, which pip prefers
# there. A static program needs no C library, so its wheel is for those with glibc and with musl. What Go compiles for macOS needs version 12.
wheels() {
  local system platforms python
  python=$(bash test/real/install.sh --bin hatchling)/python
  cd python
  "$python" -m hatchling build -d "$folder"
  for system in "${systems[@]}"; do
    case $system in
    linux/amd64) platforms=manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64 ;;
    linux/arm64) platforms=manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64 ;;
    darwin/amd64) platforms=macosx_12_0_x86_64 ;;
    darwin/arm64) platforms=macosx_12_0_arm64 ;;
    windows/amd64) platforms=win_amd64 ;;
    *) fail "pip has no name for $system" ;;
    esac
    HATCH_BUILD_HOOK_ENABLE_CUSTOM=true EODISPATCH_PROGRAM=$(file "$system") EODISPATCH_PLATFORMS=$platforms \
      "$python" -m hatchling build -t wheel -d "$folder"
  done
  cd ..
}

# sums: writes checksums, which sha256sum -c reads.
sums() {
  cd "$folder"
  find . -type f ! -name SHA256SUMS -printf '%P\0' | LC_ALL=C sort -z | xargs -0 sha256sum >SHA256SUMS
  cd "$OLDPWD"
}

[[ $# -gt 0 ]] || set -- notes programs image manuals wheels sums
for part; do
  "$part"
done
