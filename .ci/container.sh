# Sourced by scripts that start one container, in the top directory. $work is a temporary directory. It
# is deleted at the end, together with the container whose ID the script stores in $container.
# shellcheck shell=bash
source .ci/cgroups.sh

work=$(mktemp -d)
container=
clean_up() {
  [[ -z $container ]] || podman rm --force --time 1 "$container" >/dev/null 2>&1
  rm -rf "$work"
}
trap clean_up EXIT
