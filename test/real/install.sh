#!/usr/bin/env bash
# Makes a machine ready for all tests, and says what it installs: PostgreSQL's server and a pooler for it, MariaDB's server, a C compiler for the race detector,
# a browser, a Python environment for each real server that the tests of this folder start and for each judge, Node where the system's is
# older than 20, borders of countries, Prometheus, zsh, rclone, what judges the service (systemd-analyze, strace), and Keycloak. Packages come from Debian's apt-get, the environments from a Python package index, the borders from npm,
# Keycloak from Maven's repository; they lie in ${EODISPATCH_CACHE:-~/.cache/eodispatch}. apt-get checks the signatures of the distribution;
# all else is checked by hashes that stand here, and what has another one is not installed.
#
#   install.sh          all that is missing
#   install.sh NAME...  only the environments of requirements/NAME.txt, the borders of world-atlas, Prometheus (prometheus), the JavaScript clients (javascript), or
#                       Patroni and etcd (patroni), which make failover needs
#   install.sh --bin NAME   prints the folder of an environment's programs, or of the JavaScript clients
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${EODISPATCH_CACHE:-$HOME/.cache/eodispatch}

# package NAME COMMAND: installs a system package unless the command succeeds.
package() {
  local name=$1
  shift
  if "$@" >/dev/null 2>&1; then return; fi
  if ! command -v apt-get >/dev/null; then
    echo "install $name by your package manager: the tests need it" >&2
    exit 1
  fi
  local root=
  [[ $(id -u) == 0 ]] || root=sudo
  update_lists
  echo "installing the system package $name"
  $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$name" >/dev/null
}

# update_lists fetches the lists of system packages, once.
update_lists() {
  if [[ -n ${updated:-} ]]; then return; fi
  local root=
  [[ $(id -u) == 0 ]] || root=sudo
  $root apt-get update -qq
  updated=1
}

# unpack_prometheus: unpacks Prometheus and promtool, which checks alert rules, from the system package. That is not installed, because its server would start.
unpack_prometheus() {
  local folder=$cache/prometheus
  if { command -v prometheus && command -v promtool; } >/dev/null || [[ -e $folder/installed.txt ]]; then return; fi
  if ! command -v apt-get >/dev/null; then
    echo "install Prometheus with promtool: the tests need it" >&2
    exit 1
  fi
  update_lists
  echo "unpacking Prometheus from the system package prometheus into $folder"
  rm -rf "$folder"
  mkdir -p "$folder"
  (cd "$folder" && apt-get download -qq prometheus && dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool ./usr/bin/prometheus && rm prometheus_*.deb)
  touch "$folder/installed.txt"
}

has_postgres() { compgen -G '/usr/lib/postgresql/*/bin/initdb' || command -v initdb; }
has_venv() { python3 -c 'import venv, ensurepip'; }

# made_of NAME: what the Python environment of requirements/NAME.txt is made of, as a part of its folder's name; also in server_test.go.
made_of() { cat "$here/requirements/build.txt" "$here/requirements/$1.txt" | sha256sum | cut -c1-12; }

# environment NAME: makes the Python environment of requirements/NAME.txt, unless it is there. Other contents make another folder, so
# that tests of other work trees keep theirs. pip refuses what has no hash there, or another one.
environment() {
  local name=$1 venv locked=(--quiet --disable-pip-version-check --require-hashes --no-build-isolation)
  venv=$cache/$name-$(made_of "$name")
  if [[ -e $venv/installed.txt ]]; then return; fi
  echo "installing $(grep -v '^#' "$here/requirements/$name.in" | tr '\n' ' ')for tests into $venv"
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/python" -m pip install "${locked[@]}" -r "$here/requirements/build.txt"
  case $name in pygeoapi-0.24.0 | cuiman) locked+=(--ignore-requires-python) ;; esac
  "$venv/bin/python" -m pip install "${locked[@]}" -r "$here/requirements/$name.txt"
  case $name in # what Python 3.11 cannot read of them
  pygeoapi-0.24.0) # two f-strings of its map module, which nest the same quotes
    sed -i -E "s/\{query_args\['([a-z-]+)'\]\}/{query_args[\"\1\"]}/" "$venv"/lib/python3*/site-packages/pygeoapi/api/maps.py ;;
  cuiman) # the type statements of a library that its forms in notebooks use
    sed -i -E 's/^type ([A-Za-z]+) = /\1 = /' "$venv"/lib/python3*/site-packages/remotestate/{path,store}.py ;;
  esac
  touch "$venv/installed.txt"
}

# has_node: whether the system has the node and npm that build the page.
has_node() { command -v npm && node -e 'process.exit(process.versions.node.split(".")[0] < 20 ? 1 : 0)'; }

# outlines: unpacks the npm package of country borders, as it was published.
outlines() {
  local folder=$cache/world-atlas-2.0.2 file
  if [[ -e $folder/installed.txt ]]; then return; fi
  echo "installing the npm package world-atlas 2.0.2 for tests into $folder"
  rm -rf "$folder"
  mkdir -p "$folder"
  file=$(cd "$folder" && npm pack --silent world-atlas@2.0.2)
  sha512sum --quiet --check <<<"2177d5d2ac25297a5c933d458705d5c0a46388884e9d6b6d3ac926e42b7132c8e013f317018447589aa05cea4cf0891c3c1a179f24d4e651477186b90a11b42d  $folder/$file"
  tar -xzf "$folder/$file" -C "$folder" --strip-components 1
  touch "$folder/installed.txt"
}

# javascript: where the JavaScript clients of clients/js lie.
javascript() { echo "$cache/javascript-$(sha256sum <"$here/clients/js/package-lock.json" | cut -c1-12)"; }

# npm_packages: installs them. npm checks them by the hashes of package-lock.json and runs no scripts of theirs.
npm_packages() {
  local folder
  folder=$(javascript)
  if [[ -e $folder/installed.txt ]]; then return; fi
  echo "installing the npm packages of clients/js for tests into $folder"
  rm -rf "$folder"
  mkdir -p "$folder"
  cp "$here"/clients/js/package*.json "$folder"
  (cd "$folder" && npm ci --silent --ignore-scripts --no-audit --no-fund)
  touch "$folder/installed.txt"
}

if [[ ${1:-} == --bin && ${2:-} == javascript ]]; then
  javascript
  exit
fi
if [[ ${1:-} == --bin ]]; then
  echo "$cache/$2-$(made_of "$2")/bin"
  exit
fi
names=("$@")
if [[ $# == 0 ]]; then
  package postgresql has_postgres
  package pgbouncer test -x /usr/sbin/pgbouncer
  package sqlite3 command -v sqlite3
  package strace command -v strace
  package skopeo command -v skopeo
  package mariadb-server-core test -x /usr/sbin/mariadbd
  package gcc command -v gcc
  package libc6-dev test -e /usr/include/stdlib.h
  package python3 command -v python3
  package python3-venv has_venv
  package npm command -v npm
  package default-jre-headless command -v java
  package maven command -v mvn
  package unzip command -v unzip
  package curl command -v curl
  package zsh command -v zsh
  package rclone command -v rclone
  package strace command -v strace
  package systemd command -v systemd-analyze
  package chromium command -v chromium
  names=(world-atlas prometheus javascript)
  for file in "$here"/requirements/*.in; do names+=("$(basename "$file" .in)"); done
fi
mkdir -p "$cache"
exec 9>"$cache/lock" # one at a time
flock 9
for name in "${names[@]}"; do
  case $name in
    world-atlas) outlines ;;
    prometheus) unpack_prometheus ;;
    patroni)
      package etcd-server command -v etcd
      package patroni command -v patroni
      package python3-etcd /usr/bin/python3 -c 'import etcd'
      package python3-psycopg2 /usr/bin/python3 -c 'import psycopg2'
      ;;
    javascript) npm_packages ;;
    build) ;; # a part of every environment
    node)
      if ! has_node >/dev/null 2>&1; then
        package python3 command -v python3
        package python3-venv has_venv
        environment node
      fi
      ;;
    *) environment "$name" ;;
  esac
done
if [[ $# == 0 ]]; then bash "$here/keycloak/install.sh"; fi
