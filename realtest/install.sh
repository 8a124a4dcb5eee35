#!/usr/bin/env bash
# Makes the Python environments of the real servers that the tests of this folder start, each on first use.
# Needs python3 (3.11 or later) with venv, and a Python package index. They lie in
# ${EODISPATCH_CACHE:-~/.cache/eodispatch}, one folder per version of its requirements, so a change makes a new one.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${EODISPATCH_CACHE:-$HOME/.cache/eodispatch}
mkdir -p "$cache"

# over VENV MODULE VERSION: installs one package without looking at its wishes for Python and for other packages.
over() {
  "$1/bin/pip" install --quiet --disable-pip-version-check --no-deps --ignore-requires-python "$2==$3"
}

# make NAME: the environment of requirements/NAME.txt.
make_venv() {
  local name=$1 venv=$cache/$1
  exec 9>"$venv.lock"
  flock 9
  if cmp -s "$here/requirements/$name.txt" "$venv/installed.txt"; then return; fi
  echo "installing $(grep -v '^#' "$here/requirements/$name.txt" | tr '\n' ' ')($name) into $venv"
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements/$name.txt"
  if [[ $name == pygeoapi-0.24.0 ]]; then
    over "$venv" pygeoapi 0.24.0
    # Python 3.11 cannot read two f-strings of the map module, which nest the same quotes.
    sed -i -E "s/\{query_args\['([a-z-]+)'\]\}/{query_args[\"\1\"]}/" "$venv"/lib/python3*/site-packages/pygeoapi/api/maps.py
  fi
  cp "$here/requirements/$name.txt" "$venv/installed.txt"
}

for name in "${@:-}"; do
  if [[ -n $name ]]; then make_venv "$name"; continue; fi
  for file in "$here"/requirements/*.txt; do make_venv "$(basename "$file" .txt)"; done
done
