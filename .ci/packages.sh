#!/bin/bash
# Builds the Debian packages in build/deb/ from the binaries of build/release, and runs lintian. The
# version comes from git: 0.1.0 at the tag v0.1.0, 0.1.0~rc1+5.gCOMMIT five commits after the tag v0.1.0-rc1.
#   VERSION=version of the packages   OUT=directory (build/deb)
set -euo pipefail
cd "$(dirname "$0")/.."

out=${OUT:-build/deb}

# Prints the Debian version of HEAD. Packages of a later commit have a higher version.
version_of_head() {
  local base described
  base=$(sed -n 's/^project(svcmap VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
  if described=$(git describe --match "v$base*" 2>/dev/null); then
    # v0.1.0-rc1-5-gCOMMIT -> 0.1.0~rc1+5.gCOMMIT
    sed -E 's/^v//; s/-([0-9]+)-(g[0-9a-f]+)$/+\1.\2/; s/-/~/' <<<"$described"
  else
    echo "$base~0.$(git rev-list --count HEAD).g$(git rev-parse --short HEAD)"
  fi
}

version=${VERSION:-$(version_of_head)}
source_date=$(git log -1 --format=%ct 2>/dev/null || date +%s)
tree=$out/svcmap-$version
rm -rf "$out"
mkdir -p "$tree"
cp -r deploy/debian "$tree/debian"
cat >"$tree/debian/changelog" <<END
svcmap ($version) bookworm; urgency=medium

  * CHANGELOG.md of the source lists all changes.

 -- $(sed -n 's/^Maintainer: //p' deploy/debian/control)  $(date -u -R -d "@$source_date")
END

export SOURCE=$PWD
if ! (cd "$tree" && dpkg-buildpackage --build=binary --no-sign) >"$out/build.log" 2>&1; then
  tail -n 40 "$out/build.log" >&2
  echo "packages: dpkg-buildpackage failed, see $out/build.log" >&2
  exit 1
fi
rm -rf "$tree"
(cd "$out" && lintian --allow-root --fail-on error,warning --info ./*.changes)
ls -l "$out"/*.deb
echo "packages: version $version, lintian reports no errors and no warnings"
