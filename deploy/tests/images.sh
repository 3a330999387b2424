#!/usr/bin/env bash
# Fast tests of images.sh and oci-archive.sh, with stand-ins for the engines and the programs. No root, no engine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset lj_runtimekit_version
failed=0
check() { # what, command …
  local what=$1
  shift
  if "$@" >/dev/null 2>&1; then return; fi
  echo "FAILED $what: $*"
  failed=1
}
says() { # code, text, arguments …: how it ends and what it says
  local code=$1 text=$2 output got=0
  shift 2
  output=$(deploy/images.sh "$@" 2>&1) || got=$?
  [[ $got == "$code" && $output == *"$text"* ]] || { echo "FAILED images.sh $*: $got $output"; failed=1; }
}

says 64 'unknown argument --colour=red' --colour=red
says 64 'component gpu: it is one of device-plugin scheduler' --component=gpu
says 64 'version a b' '--version=a b'
says 64 'registry HTTP://x' --registry=HTTP://x
says 64 'cli kaniko: it is one of docker podman' --cli=kaniko
says 0 'deploy/images.sh [--component=NAME]' --help

# ---- archives ----
export PROGRAMS=$work/programs
mkdir "$PROGRAMS"
for component in device-plugin scheduler exporter controller controller-job-agent; do
  printf '#!/bin/sh\necho %s\n' "$component" >"$PROGRAMS/lj-runtimekit-$component"
done
deploy/images.sh --cli=archive --out="$work/a" --registry=registry.example:5000/team --version=7.0.0 >/dev/null
deploy/images.sh --cli=archive --out="$work/b" --registry=registry.example:5000/team --version=7.0.0 >/dev/null
check 'five archives' test "$(find "$work/a" -name '*-7.0.0.tar' | wc -l)" = 5
check 'the same bytes each time' diff -r "$work/a" "$work/b"
touch -d '2001-01-01' "$PROGRAMS"/*
deploy/images.sh --cli=archive --out="$work/c" --registry=registry.example:5000/team --version=7.0.0 >/dev/null
check 'whenever the program was built' diff -r "$work/a" "$work/c"

image=$work/image
mkdir "$image"
tar -xf "$work/a/lj-runtimekit-scheduler-7.0.0.tar" -C "$image"
while read -r blob; do
  check 'a blob is what its name says' test "$(sha256sum "$blob" | cut -d' ' -f1)" = "${blob##*/}"
done < <(find "$image/blobs" -type f)
check 'its full name' grep -q '"io.containerd.image.name":"registry.example:5000/team/lj-runtimekit-scheduler:7.0.0"' "$image/index.json"
config=$(grep -l '"Entrypoint"' "$image"/blobs/sha256/* | head -n 1)
check 'its program' grep -q '"Entrypoint":\["/lj-runtimekit-scheduler"\]' "$config"
check 'its user' grep -q '"User":"65532"' "$config"
check 'its labels' grep -q '"org.opencontainers.image.version":"7.0.0"' "$config"
layer=$(grep -lE '^.?' "$image"/blobs/sha256/* | while read -r blob; do if gzip -t "$blob" 2>/dev/null; then echo "$blob"; fi; done)
check 'nothing but the program' test "$(tar -tzf "$layer")" = lj-runtimekit-scheduler
check 'of root' test "$(tar -tvzf "$layer" | awk '{ print $1, $2 }')" = '-rwxr-xr-x 0/0'
deploy/images.sh --cli=archive --out="$work/d" --component=controller >/dev/null
check 'the controller brings its job agent' test "$(find "$work/d" -name '*.tar' | wc -l)" = 2
check 'a bare name is of docker.io/library' grep -qa 'docker.io/library/lj-runtimekit-controller:' "$work/d"/lj-runtimekit-controller-[0-9]*.tar
lj_runtimekit_version=8.0.0 deploy/images.sh --cli=archive --out="$work/e" --component=exporter >/dev/null
check 'the version of the environment' test -e "$work/e/lj-runtimekit-exporter-8.0.0.tar"

# ---- which engine ----
mkdir "$work/bin"
engine() { # name, exit code of `info`
  # shellcheck disable=SC2016 # for the stub to expand
  printf '#!/bin/sh\ncase "$*" in *info*|version) exit %s ;; esac\necho "%s $*" >>"$CALLS"\n' "$2" "$1" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}
export CALLS=$work/calls
for name in docker podman nerdctl buildah ctr; do engine "$name" 1; done
engine podman 0
PATH=$work/bin:$PATH deploy/images.sh --component=exporter --version=1 --registry=r.example >/dev/null
check 'the first that answers, not the first that is there' grep -q '^podman build .*--target exporter --tag r.example/lj-runtimekit-exporter:1 ' "$CALLS"
check 'no other' test "$(wc -l <"$CALLS")" = 1
: >"$CALLS"
engine ctr 0
PATH=$work/bin:$PATH deploy/images.sh --cli=ctr --component=exporter --version=1 --out="$work/f" >/dev/null
check 'ctr imports the archive' grep -q "^ctr --namespace k8s.io images import $work/f/lj-runtimekit-exporter-1.tar" "$CALLS"
engine podman 1
PATH=$work/bin:$PATH says 1 'podman does not answer' --cli=podman

[[ $failed == 0 ]] && echo 'images: all well'
exit "$failed"
