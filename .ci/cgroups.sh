# Sourced by scripts that run podman, from the top of the source. crun knows cgroups of version 2: where
# the machine has others, the script begins anew in a mount namespace that has these.
# shellcheck shell=bash disable=SC2016
if [[ $(stat -fc %T /sys/fs/cgroup) != cgroup2fs ]]; then
  exec unshare --mount bash -c '
    umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec "$0" "$@"' \
    "$PWD/.ci/$(basename "$0")" "$@"
fi
