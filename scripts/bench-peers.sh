#!/usr/bin/env bash
# Installs the peers of `make bench-engine` and of `benches/sockets.py` on a Debian or Ubuntu machine: ns-3 and SimGrid.
set -euo pipefail

sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y --no-install-recommends g++ libns3-dev libsimgrid-dev
