#!/bin/bash
# Unpacks Debian packages and their dependencies into an empty directory, as a root file system.
# packages_into.sh DIRECTORY PACKAGE...: also writes the files of each package to DIRECTORY.files/PACKAGE.
set -euo pipefail
root=$1
shift

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/archives/partial"
touch "$work/status"  # No package is installed, so apt downloads all dependencies.
apt-get -qq update
apt-get -qq install --download-only --no-install-recommends \
  -o APT::Sandbox::User=root -o Dir::State::status="$work/status" \
  -o Dir::Cache::archives="$work/archives" "$@"

# Debian has a merged /usr, but packages can still contain /lib.
mkdir -p "$root.files" "$root"/{etc,run,tmp,var/lib/dpkg/status.d} "$root"/usr/{bin,lib,lib64,sbin}
chmod 1777 "$root/tmp"
for folder in bin lib lib64 sbin; do ln -s "usr/$folder" "$root/$folder"; done

for archive in "$work"/archives/*.deb; do
  name=$(dpkg-deb --field "$archive" Package)
  dpkg-deb --fsys-tarfile "$archive" | tar -x --keep-directory-symlink -C "$root"
  dpkg-deb --fsys-tarfile "$archive" | tar -t >"$root.files/$name"
  # Image scanners read the list of packages here.
  dpkg-deb --field "$archive" >"$root/var/lib/dpkg/status.d/$name"
done

# No program reads these files. Licences are kept.
find "$root/usr/share/doc" -type f ! -name copyright -delete
rm -rf "$root"/usr/share/{info,lintian,locale,man} "$root"/usr/lib/*/gconv
find "$root/usr/share/doc" -type d -empty -delete
