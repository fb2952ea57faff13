#!/bin/bash
# Installs the Debian packages of the given groups of third_party/packages.txt, or of all groups. Exits
# quickly if all are installed. For "one|other" either package is sufficient; the first one is installed
# if both are missing. `--print` only prints the packages.
set -euo pipefail
cd "$(dirname "$0")/.."

print=0
if [[ ${1-} == --print ]]; then
  print=1
  shift
fi

mapfile -t packages < <(awk -v wanted=" $* " '
  /^## / { group = $2; next }
  /^[^#]/ && (wanted == "  " || index(wanted, " " group " ")) { print $1 }' third_party/packages.txt)
if ((${#packages[@]} == 0)); then
  echo "third_party/packages.txt: group not found: $*" >&2
  exit 2
fi
if ((print)); then
  printf '%s\n' "${packages[@]%%|*}"
  exit
fi

if ! command -v dpkg-query >/dev/null; then
  echo "This is not a Debian system: install the packages of third_party/README.md manually." >&2
  exit 1
fi
mapfile -d '|' -t names < <(printf '%s|' "${packages[@]}")
installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${names[@]}" 2>/dev/null || true)
missing=()
for package in "${packages[@]}"; do
  grep -qxE "(${package//[+.]/\\&}) installed" <<<"$installed" || missing+=("${package%%|*}")
done
((${#missing[@]})) || exit 0

if ((EUID != 0)); then
  echo "Debian packages are missing; as root, run: apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
echo "Installing ${#missing[@]} Debian packages: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1
then
  tail -n 30 "$log" >&2
  echo "apt-get failed, see the lines above." >&2
  exit 1
fi
