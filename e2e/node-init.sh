#!/usr/bin/env bash
# The first process of a node of e2e/cluster.sh, in its own mount, pid, network, uts, ipc and cgroup namespaces. When it
# is killed everything on the node ends with it, as at a power failure.
set -euo pipefail
name=$1 dir=$2 bin=$3 address=$4 lab=$5

hostname "$name"
mount --make-rprivate /
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /sys/fs/cgroup
while IFS=: read -r _ controllers _; do
  case $controllers in
    '') folder=unified type=cgroup2 options='' ;;
    name=*) folder=${controllers#name=} type=cgroup options="-o none,$controllers" ;;
    *) folder=$controllers type=cgroup options="-o $controllers" ;;
  esac
  mkdir -p "/sys/fs/cgroup/$folder"
  # shellcheck disable=SC2086 # the options are two words
  mount -t $type $options cgroup "/sys/fs/cgroup/$folder" || rmdir "/sys/fs/cgroup/$folder"
done </proc/self/cgroup

# What is written there stays on this node. The host's own folders are never mounted over: whoever removes one of those
# would take the mount away with it.
for folder in etc opt var; do
  mkdir -p "$dir/over/$folder/upper" "$dir/over/$folder/work"
  mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$dir/over/$folder/upper,workdir=$dir/over/$folder/work" "/$folder"
done
mkdir -p /var/lib/{kubelet,containerd,cni} /var/log/{pods,containers} /etc/{cni,containerd}
mount --bind "$dir/kubelet" /var/lib/kubelet
mount --bind "$dir/containerd" /var/lib/containerd
mount --bind "$dir/cni" /var/lib/cni
mount --bind "$dir/log-pods" /var/log/pods
mount --bind "$dir/log-containers" /var/log/containers
mount --bind "$dir/etc-cni" /etc/cni
mount --bind "$dir/etc-containerd" /etc/containerd

# A /dev of its own, so that pretend cards stay on this node.
mkdir -p "$dir/dev"
mount -t tmpfs tmpfs "$dir/dev"
cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty /dev/kmsg "$dir/dev/" 2>/dev/null || :
ln -s /proc/self/fd "$dir/dev/fd"
mkdir "$dir/dev/pts" "$dir/dev/shm" "$dir/dev/mqueue"
mount -t devpts devpts "$dir/dev/pts" -o newinstance,ptmxmode=0666
ln -s pts/ptmx "$dir/dev/ptmx"
mount -t tmpfs tmpfs "$dir/dev/shm"
for n in $(seq 0 15); do
  mknod "$dir/dev/ppu$n" c 1 3
  mknod "$dir/dev/nvidia$n" c 1 3
done
mknod "$dir/dev/ppuctl" c 1 3
mount --move "$dir/dev" /dev

mount -t tmpfs tmpfs /run
mkdir -p /run/amp/eKitC/xdm/sockets /run/containerd /run/lab/bin
mount --bind "$bin" /run/lab/bin
# The Runtime's sockets, where the tests find them too.
mount --bind "$dir/sockets" /run/amp/eKitC/xdm/sockets

# The Runtime's own part of the container runtime, as a test needs it: it says that it was called.
mount -t tmpfs tmpfs /usr/local
mkdir -p /usr/local/harp/kitC
printf '#!/bin/sh\nexec runc "$@"\n' >/usr/local/harp/kitC/xpu-container-runtime
chmod 0755 /usr/local/harp/kitC/xpu-container-runtime
mount --make-rshared /

echo "starting $name"
# Parts that a test ends are started again, as a service manager would; not while they are held.
keep() { # name, command …
  local part=$1
  shift
  while :; do
    while [[ -e /run/lab/$part.hold ]]; do sleep 0.2; done
    "$@" >>"$lab/logs/$name-$part.log" 2>&1 &
    echo $! >"/run/lab/$part.pid"
    wait $! || :
    [[ -e /run/lab/$part.hold ]] || sleep 0.5
  done
}
if [[ -x $lab/runtime-sim ]]; then
  keep runtime "$lab/runtime-sim" --dir /run/amp/eKitC/xdm/sockets --state "$dir/runtime/state" \
    --profile "${RUNTIME_PROFILE:-ppu-8x144}" --feature off --edits environment --control-listen "$address:9599" &
fi
keep containerd containerd &
for _ in $(seq 1 100); do [[ -S /run/containerd/containerd.sock ]] && break; sleep 0.1; done
for archive in "$lab"/images/*.tar; do
  loaded=$dir/containerd/.loaded-$(basename "$archive")
  [[ -e $loaded ]] || { ctr --namespace k8s.io images import "$archive" >/dev/null && touch "$loaded"; }
done
keep kubelet /run/lab/bin/kubelet --config "$dir/kubelet.yaml" --kubeconfig "$lab/pki/$name.kubeconfig" \
  --node-ip "$address" --hostname-override "$name" &
wait
