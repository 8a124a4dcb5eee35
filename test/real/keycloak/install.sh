#!/usr/bin/env bash
# Installs the Keycloak that the tests of this folder start: the distribution from Maven's central repository, built with the
# features that the drivers need, and a database into which realms/ was imported. All lies in
# ${EODISPATCH_CACHE:-~/.cache/eodispatch}/keycloak. It needs java (17 or newer), mvn, unzip and curl.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${EODISPATCH_CACHE:-$HOME/.cache/eodispatch}
version=26.7.3
sum=27a6535553c3cdcd083872ba40629efafb3475e3b758e0c6f691395561dd0f1f
features=token-exchange,admin-fine-grained-authz:v1,identity-brokering-api:v2
port=28380 # also in server.go: the database knows its own address
home=$cache/keycloak
state=$(cat "$here"/realms/*.json "$here/install.sh" | sha256sum)

exec 8>"${TMPDIR:-/tmp}/eodispatch-keycloak.lock" # nobody else has the port; also in server.go
flock 8
if [[ $(cat "$home/installed.txt" 2>/dev/null) == "$state" ]]; then exit; fi
mkdir -p "$cache"
zip=$cache/keycloak-quarkus-dist-$version.zip
if ! sha256sum --status -c <<<"$sum  $zip" 2>/dev/null; then
  echo "fetching Keycloak $version for tests into $cache"
  mvn -B -q org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -DoutputDirectory="$cache" -Dmdep.useBaseVersion=true \
    -Dartifact="org.keycloak:keycloak-quarkus-dist:$version:zip"
  sha256sum --quiet -c <<<"$sum  $zip"
fi

# The files are moved into place when all is done.
made=$cache/keycloak.new
rm -rf "$made"
unzip -q "$zip" -d "$made"
mv "$made"/keycloak-"$version"/* "$made"
mkdir -p "$made/data/import"
cp "$here"/realms/*.json "$made/data/import/"
say() {
  tail -n 20 "$made/log" >&2
  echo "$1; the log above is Keycloak's" >&2
  exit 1
}
echo "building Keycloak $version with $features"
export JAVA_OPTS_KC_HEAP='-Xms64m -Xmx512m' JAVA_OPTS_APPEND='-XX:TieredStopAtLevel=1'
"$made/bin/kc.sh" build --db=dev-file --features="$features" >"$made/log" 2>&1 || say 'Keycloak was not built'

echo 'importing the realms'
export EODISPATCH_KEYCLOAK=http://127.0.0.1:$port
export KC_BOOTSTRAP_ADMIN_USERNAME=admin KC_BOOTSTRAP_ADMIN_PASSWORD=admin
"$made/bin/kc.sh" start --optimized --http-enabled=true --http-host=127.0.0.1 --http-port=$port \
  --hostname="$EODISPATCH_KEYCLOAK" --cache=local --import-realm >"$made/log" 2>&1 </dev/null 8>&- &
pid=$!
trap 'kill $pid 2>/dev/null || true' EXIT
ready() { curl -sf -o /dev/null "$EODISPATCH_KEYCLOAK/realms/$1/.well-known/openid-configuration"; }
for _ in $(seq 900); do
  if ready apex && ready platform; then break; fi
  kill -0 $pid 2>/dev/null || say 'Keycloak did not start'
  sleep 0.2
done
ready apex && ready platform || say 'the realms were not imported'
kill $pid
wait $pid || true # it says that it was told to end
trap - EXIT
rm -rf "$home"
mv "$made" "$home"
echo "$state" >"$home/installed.txt"
