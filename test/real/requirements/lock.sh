#!/usr/bin/env bash
# Locks what requirements/NAME.in asks for, and all that this depends on, by version and hash into requirements/NAME.txt. Versions that
# NAME.txt has are kept; remove a line from it to have that package's newest. It needs uv.
#
#   lock.sh NAME...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
for name in "$@"; do
  python=3.11
  case $name in pygeoapi-0.24.0 | cuiman) python=3.12 ;; esac # they refuse 3.11; what they depend on is the same there
  uv pip compile --quiet --generate-hashes --universal --python-version $python --no-annotate --no-header \
    --only-binary :all: --no-binary traceback-with-variables "$name.in" -o "$name.txt"
done
