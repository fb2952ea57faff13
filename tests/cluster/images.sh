#!/bin/bash
# Builds the image archives of the test cluster in build/cluster/images, without a registry: the image of
# svcmap from the binaries of `make build`, and one root file system with Kubernetes' test programs that
# has the names of all images that the cluster and its tests use. Does nothing if the archives are newer
# than the programs. Archives of other images: KUBERNETES/images/*.tar.
set -euo pipefail
# shellcheck source=common.sh
source "$(dirname "$0")/common.sh"
programs=${PROGRAMS:-$top/build/release/bin}
mkdir -p "$images" "$work/roots"

# older ARCHIVE FILE...: whether the archive is missing or older than one of the files.
older() {
  local file
  [[ -e $1 ]] || return 0
  for file in "${@:2}"; do [[ ! $file -nt $1 ]] || return 0; done
  return 1
}

# root NAME PACKAGE...: unpacks packages into build/cluster/roots/NAME.
root() {
  rm -rf "$work/roots/$1" "$work/roots/$1.files"
  "$top/deploy/image/packages_into.sh" "$work/roots/$1" "${@:2}"
}

svcmap_image() {
  local version files=("$programs"/{svcmapd,svcmapctl,svcmap-kube}) own=$work/roots/svcmap
  older "$images/svcmap.tar" "${files[@]}" "$0" || return 0
  [[ -x ${files[0]} && -x ${files[1]} && -x ${files[2]} ]] || fail "$programs has no binaries: run make build"
  version=$(sed -n 's/^project(svcmap VERSION \([0-9.]*\).*/\1/p' "$top/CMakeLists.txt")
  # The steps of deploy/image/Dockerfile.
  # shellcheck disable=SC2046
  root svcmap $("$top/.ci/deps.sh" --print runtime)
  mkdir -p "$own/usr/share/doc/svcmap"
  cp "$top/LICENSE" "$top/third_party/README.md" "$own/usr/share/doc/svcmap/"
  install -m 755 "${files[@]}" "$own/usr/bin/"
  strip --strip-debug "$own"/usr/bin/svcmap*
  "$top/deploy/image/finish.sh" "$own" "$version" unknown 0
  # A second tag for tests of an upgrade.
  /usr/bin/python3 -B "$cluster_dir/image.py" "$images/svcmap.tar" "$own" <<END
localhost/svcmap:$version,localhost/svcmap:next {"Env": ["PATH=/usr/bin"], "User": "65532:65532", "Cmd": ["svcmapd", "--help"]}
END
}

# Prints the names that e2e.test uses for an image: the version depends on the version of Kubernetes.
names_of() {
  local names
  names=$("$KUBERNETES/e2e.test" --list-images 2>/dev/null | grep "/$1:" | paste -sd ,) || true
  echo "localhost/$1:cluster${names:+,$names}"
}

tools_image() {
  local own=$work/roots/tools program needed=("$0" "$cluster_dir/pause.c" "$KUBERNETES/kube-proxy")
  for program in agnhost regression-issue-74839 e2e.test; do
    [[ ! -e $KUBERNETES/$program ]] || needed+=("$KUBERNETES/$program")
  done
  older "$images/tools.tar" "${needed[@]}" || return 0
  root tools busybox conntrack curl dash iproute2 iptables netcat-openbsd nftables wget
  gcc -Os -static -o "$own/pause" "$cluster_dir/pause.c"
  for program in agnhost kube-proxy regression-issue-74839; do
    [[ ! -e $KUBERNETES/$program ]] || install -m 755 "$KUBERNETES/$program" "$own/$program"
  done
  mkdir -p "$own"/{uploads,etc,proc,sys,dev}
  # Files of the image of agnhost: the certificate of its HTTPS server.
  openssl req -x509 -newkey rsa:2048 -nodes -keyout "$own/localhost.key" -subj /CN=localhost -days 3650 \
    -out "$own/localhost.crt" 2>/dev/null
  echo 'root:x:0:0:root:/root:/bin/sh' >"$own/etc/passwd"
  # Links that the packages make after their installation. busybox's shell would prefer its own nc.
  ln -sf dash "$own/usr/bin/sh"
  ln -sf nc.openbsd "$own/usr/bin/nc"
  for program in {iptables,ip6tables}{,-save,-restore}; do ln -sf xtables-legacy-multi "$own/usr/sbin/$program"; done
  # busybox: programs of the images that no package above contains. Its wget crashes in this root.
  echo "tries = 1" >"$own/etc/wgetrc"  # The tests expect that wget does not retry.
  for program in $("$own/bin/busybox" --list); do
    [[ -e $own/usr/bin/$program || -e $own/usr/sbin/$program ]] || ln -s busybox "$own/usr/bin/$program"
  done
  /usr/bin/python3 -B "$cluster_dir/image.py" "$images/tools.tar" "$own" <<END
registry.k8s.io/pause:3.10,$(names_of pause) {"Entrypoint": ["/pause"]}
localhost/kube-proxy:cluster {"Entrypoint": ["/kube-proxy"]}
$(names_of agnhost) {"Entrypoint": ["/agnhost"], "Cmd": ["pause"]}
$(names_of busybox) {"Cmd": ["sh"]}
$(names_of distroless-iptables) {"Cmd": ["sh"]}
$(names_of regression-issue-74839) {"Entrypoint": ["/regression-issue-74839"]}
END
}

# The programs of the network plugin, beside those that its scripts use.
cni_image() {
  rm -rf "$work/roots/cni"
  cp -al "$work/roots/tools" "$work/roots/cni"
  # Directories can be links, for example /bin.
  tar -C "$cni/root" -c . | tar -C "$work/roots/cni" -x --keep-directory-symlink
  /usr/bin/python3 -B "$cluster_dir/image.py" "$images/cni.tar" "$work/roots/cni" <<<'localhost/cni:cluster {}'
}

svcmap_image
tools_image
[[ -z $cni ]] || cni_image
