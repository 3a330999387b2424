#!/usr/bin/env bash
# Builds the Kubernetes programs of one version, and etcd, from the Go module proxy into a folder that is kept:
#   e2e/kubernetes-build.sh 1.36.3 FOLDER
# What is there already is not built again.
set -euo pipefail
version=${1:?version, such as 1.36.3}
target=${2:?folder to build into}
# After a restart of etcd 3.4, Debian's, a current API server serves old answers for minutes.
etcd=3.6.16
programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl)

there() { local p; for p in "$@"; do [[ -x $target/$p ]] || return 1; done; }
if there etcd "${programs[@]}"; then exit 0; fi
command -v go >/dev/null || { echo "no go on PATH: it builds Kubernetes $version" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CGO_ENABLED=0

build() { # flags for the linker, packages …: into the target, all or none
  local flags=$1
  shift
  (cd "$work" && go build -mod=mod -trimpath -o "$work/bin/" -ldflags "-s -w $flags" "$@")
  mkdir -p "$target"
  mv "$work"/bin/* "$target/"
}

if ! there etcd; then
  echo "building etcd $etcd (a minute, kept in $target)"
  printf 'module etcd-build\n\ngo 1.24\n\nrequire go.etcd.io/etcd/server/v3 v%s\n' "$etcd" >"$work/go.mod"
  build '' go.etcd.io/etcd/server/v3
  mv "$target/v3" "$target/etcd" 2>/dev/null || mv "$target/server" "$target/etcd"
  rm -f "$work"/go.*
fi

if ! there "${programs[@]}"; then
  echo "building Kubernetes $version (4 to 15 minutes, kept in $target)"
  mod=$(cd "$work" && go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')
  {
    printf 'module kubernetes-build\n\n'
    grep -E '^go ' "$mod"
    printf '\nrequire k8s.io/kubernetes v%s\n\nreplace (\n' "$version"
    # The staging modules are replaced by folders there; their releases are v0.<minor>.<patch>.
    sed -nE "s#^[[:space:]]*(k8s\.io/[^ ]+) => \./staging.*#\t\1 => \1 v0.${version#*.}#p" "$mod"
    printf ')\n'
  } >"$work/go.mod"
  stamp=k8s.io/component-base/version
  minor=${version#*.}
  build "-X $stamp.gitVersion=v$version -X $stamp.gitMajor=${version%%.*} -X $stamp.gitMinor=${minor%%.*}" \
    "${programs[@]/#/k8s.io/kubernetes/cmd/}"
fi
there etcd "${programs[@]}"
