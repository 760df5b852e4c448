#!/bin/sh
# Installs Debian's chromium where there is none, for the tests that open pages in a browser; without it they are skipped.
set -eu
for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then
        echo "there is a browser: $(command -v "$name")"
        exit 0
    fi
done
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "no browser, and it can only be installed as root on Debian or its kin: those tests will be skipped" >&2
    exit 0
fi
apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends chromium
