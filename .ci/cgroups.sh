# Sourced by scripts that run podman, in the top directory. crun supports cgroups version 2 only. On
# other machines the script restarts itself in a mount namespace with version 2.
# shellcheck shell=bash disable=SC2016
if [[ $(stat -fc %T /sys/fs/cgroup) != cgroup2fs ]]; then
  exec unshare --mount bash -c '
    umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec "$0" "$@"' \
    "$PWD/.ci/$(basename "$0")" "$@"
fi
