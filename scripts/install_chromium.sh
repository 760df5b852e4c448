#!/bin/sh
# Installs Debian's chromium where there is none, for the tests that open pages in a browser. Where that cannot be, one
# line says so and the exit status is still 0: those tests are skipped then.
set -eu
for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then
        echo "browser: $(command -v "$name")"
        exit 0
    fi
done
skipped() {
    echo "no browser, and $1: the tests that need one will be skipped" >&2
    exit 0
}
command -v apt-get >/dev/null || skipped "no apt-get to install one with"
[ "$(id -u)" = 0 ] || skipped "only root may install one"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# One try with a short wait for each server, so that a closed network costs seconds and not minutes.
apt="apt-get -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20"
export DEBIAN_FRONTEND=noninteractive
$apt update >"$log" 2>&1 || skipped "the package lists cannot be read ($(tail -n 1 "$log"))"
$apt install --yes --no-install-recommends chromium >"$log" 2>&1 ||
    skipped "chromium cannot be installed ($(tail -n 1 "$log"))"
echo "browser: $(command -v chromium) (installed now)"
