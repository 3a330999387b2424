#!/usr/bin/env bash
# Writes an image of one static program as an OCI archive, without a container engine:
#   deploy/oci-archive.sh NAME:TAG PROGRAM[:PATH] USER[:GROUP] ARCHIVE.tar [LABEL=VALUE …] [-- ARGUMENT …]
# PATH is where the image has it; by default at the root. The same program gives the same bytes: times are 0, owners are
# root, order is fixed. `docker load`, `podman load`, `nerdctl load`, `ctr images import` and `buildah pull oci-archive:`
# read it.
set -euo pipefail
[[ $# -ge 4 ]] || { sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 64; }
reference=$1 program=$2 user=$3 archive=$4
shift 4

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
blobs=$work/image/blobs/sha256
mkdir -p "$blobs" "$work/root"
name=${program##*/}
if [[ $program == *:/* ]]; then
  name=${program##*:/}
  program=${program%%:/*}
fi
install -D -m 0755 "$program" "$work/root/$name"

pack() { tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=ustar -C "$1" -cf "$2" "${@:3}"; }
store() { # file: moves it among the blobs and says its digest
  local digest
  digest=$(sha256sum "$1" | cut -d' ' -f1)
  mv "$1" "$blobs/$digest"
  echo "$digest"
}
size() { stat -c %s "$blobs/$1"; }

pack "$work/root" "$work/layer.tar" "${name%%/*}"
diff=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
gzip -n -6 "$work/layer.tar"
layer=$(store "$work/layer.tar.gz")

labels=''
entry="\"/$name\""
while [[ $# -gt 0 && $1 != -- ]]; do
  label=$1
  shift
  labels+="${labels:+,}\"${label%%=*}\":\"${label#*=}\""
done
shift || :
for argument in "$@"; do entry+=",\"$argument\""; done
case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) arch=$(uname -m) ;; esac
printf '{"architecture":"%s","os":"linux","created":"1970-01-01T00:00:00Z","config":{"User":"%s","Entrypoint":[%s],"Labels":{%s}},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"history":[{"created":"1970-01-01T00:00:00Z","comment":"one static program"}]}' \
  "$arch" "$user" "$entry" "$labels" "$diff" >"$work/config.json"
config=$(store "$work/config.json")
media=application/vnd.oci.image
printf '{"schemaVersion":2,"mediaType":"%s.manifest.v1+json","config":{"mediaType":"%s.config.v1+json","digest":"sha256:%s","size":%s},"layers":[{"mediaType":"%s.layer.v1.tar+gzip","digest":"sha256:%s","size":%s}]}' \
  $media $media "$config" "$(size "$config")" $media "$layer" "$(size "$layer")" >"$work/manifest.json"
manifest=$(store "$work/manifest.json")
printf '{"schemaVersion":2,"mediaType":"%s.index.v1+json","manifests":[{"mediaType":"%s.manifest.v1+json","digest":"sha256:%s","size":%s,"annotations":{"io.containerd.image.name":"%s","org.opencontainers.image.ref.name":"%s"}}]}' \
  $media $media "$manifest" "$(size "$manifest")" "$reference" "${reference##*:}" >"$work/image/index.json"
printf '{"imageLayoutVersion":"1.0.0"}' >"$work/image/oci-layout"
# For `docker load` of engines that do not read OCI layouts yet.
printf '[{"Config":"blobs/sha256/%s","RepoTags":["%s"],"Layers":["blobs/sha256/%s"]}]' "$config" "$reference" "$layer" \
  >"$work/image/manifest.json"
pack "$work/image" "$work/image.tar" blobs index.json manifest.json oci-layout
mv "$work/image.tar" "$archive"
echo "$reference: $(stat -c %s "$archive") bytes in $archive"
