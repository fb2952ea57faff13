#!/bin/bash
# Tests the Debian packages in a clean Debian 12 root under systemd: installation, upgrade and downgrade of
# agent and bridge under traffic, removal and purge (tests/packages/packages_test.py). Needs root and takes
# about two minutes, the first time longer. Fails if svcmapd needs more than a second to restart, so give
# the test priority over other processes: nice -n -10 .ci/deb.sh
#   NEW=directory of the packages (build/deb)
#   OLD=directory of packages of another version; without OLD, the packages of NEW with a lower version
set -euo pipefail
cd "$(dirname "$0")/.."

source .ci/container.sh

new=${NEW:-build/deb}

version_in() { dpkg-deb --field "$1"/svcmap-agent_*.deb Version; }

# lower DIRECTORY: repacks the packages of NEW with a lower version.
lower() {
  local package version folder=$work/repack
  version=$(version_in "$new")
  mkdir -p "$1"
  for package in agent ctl kube etcd; do
    rm -rf "$folder"
    dpkg-deb --raw-extract "$new/svcmap-${package}_"*.deb "$folder"
    sed -i "s/^Version: .*/&~before/" "$folder/DEBIAN/control"
    dpkg-deb -Znone --build "$folder" "$1/svcmap-$package.deb" >/dev/null
    mv "$1/svcmap-$package.deb" "$1/svcmap-${package}_$version~before.deb"
  done
}

compgen -G "$new/svcmap-agent_*.deb" >/dev/null || { echo "deb: no packages in $new, run make deb" >&2; exit 1; }
old=${OLD:-}
if [[ -z $old ]]; then
  old=$work/old
  lower "$old"
fi

# The packages and all packages that they need, as a repository for a root without network.
mkdir -p build/deb-test/archives/partial "$work/repository"
touch "$work/status"  # No package is installed, so apt downloads all dependencies.
apt-get -qq update
apt-get -qq install --download-only -o APT::Sandbox::User=root -o Dir::State::status="$work/status" \
  -o Dir::Cache::archives="$PWD/build/deb-test/archives" \
  "$(realpath "$new")"/svcmap-{agent,ctl,kube,etcd}_*.deb systemd-sysv >/dev/null
cp build/deb-test/archives/*.deb "$old"/svcmap-{agent,ctl,kube,etcd}_*.deb "$new"/svcmap-{agent,ctl,kube,etcd}_*.deb \
  "$work/repository/"
(cd "$work/repository" && dpkg-scanpackages --multiversion . >Packages 2>/dev/null)

image=localhost/svcmap-clean:bookworm
if ! podman image exists "$image"; then
  mmdebstrap --quiet --variant=apt --include=systemd-sysv bookworm - | podman import --quiet - "$image"
fi
container=$(podman run --detach --systemd=always --privileged --network=none --hostname=node-1 \
  --pids-limit=-1 --ulimit nofile=4096:4096 --ulimit nproc=4096:4096 \
  --volume="$work/repository:/repository:ro" "$image" /sbin/init)
until podman exec "$container" systemctl is-active multi-user.target >/dev/null 2>&1; do
  ((SECONDS < 300)) || { echo "deb: systemd does not start" >&2; exit 1; }
  sleep 0.2
done
podman exec "$container" bash -c 'rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*
  echo "deb [trusted=yes] file:/repository ./" >/etc/apt/sources.list && apt-get -qq update'
if ! /usr/bin/python3 -B tests/packages/packages_test.py "$container" "$(version_in "$old")" "$(version_in "$new")"; then
  podman exec "$container" journalctl --no-pager --lines 40 --unit svcmapd --unit svcmap-kube >&2
  exit 1
fi
