#!/usr/bin/env bash
# Deploys on a small cluster of its own and takes everything away again: no object, node annotation, resource name or
# lease of the kit is left, and a running pod is not touched. kubelet takes 5 minutes to give up a resource name, so
# run.sh lets this run beside the scenarios. IMAGES and RUNTIME_SIM as for cluster.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
export LAB_NAME=${LAB_NAME:-lj}-undeploy
export LAB=${TMPDIR:-/tmp}/$LAB_NAME-lab
LJ_RUNTIMEKIT_DEPLOY_LOG=$(mktemp)
export LJ_RUNTIMEKIT_DEPLOY_LOG
finish() {
  local code=$?
  trap - EXIT INT TERM
  e2e/cluster.sh down
  rm -f "$LJ_RUNTIMEKIT_DEPLOY_LOG"*
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM
kubectl() { e2e/cluster.sh run kubectl "$@"; }
wrong() { echo "undeploy: $*"; exit 1; }

e2e/cluster.sh up 1
if e2e/cluster.sh run deploy/deploy-all.sh deploy --wait=180s >"$LJ_RUNTIMEKIT_DEPLOY_LOG.unlabelled"; then
  wrong 'it deploys where no node is labelled'
fi
grep -q 'kubectl label node NODE lj_runtimekit_enable=true' "$LJ_RUNTIMEKIT_DEPLOY_LOG.unlabelled" ||
  wrong "it does not say how to label a node: $(tail -n 3 "$LJ_RUNTIMEKIT_DEPLOY_LOG.unlabelled")"
kubectl label node node-1 lj_runtimekit_enable=true
for _ in 1 2; do e2e/cluster.sh run deploy/deploy-all.sh deploy --wait=180s; done
for i in $(seq 1 120); do
  [[ $(kubectl get node node-1 -o 'jsonpath={.status.allocatable.alibabacloud\.com/ppu}') != 8 ]] || break
  [[ $i -lt 120 ]] || wrong 'node-1 offers no cards'
  sleep 0.5
done
kubectl apply -f - <<'END'
apiVersion: v1
kind: Pod
metadata: {name: stays}
spec:
  containers:
    - name: main
      image: docker.io/lj-e2e/busybox:1
      command: [/busybox, sleep, "1000000000"]
      resources: {limits: {aliyun.com/gpu-core: "20", aliyun.com/gpu-memory: "10"}}
END
kubectl wait --for=condition=Ready pod/stays --timeout=60s
pod() { kubectl get pod stays -o 'jsonpath={.metadata.uid} {.status.phase} {.status.containerStatuses[0].containerID} {.status.containerStatuses[0].restartCount}'; }
before=$(pod)

e2e/cluster.sh run deploy/deploy-all.sh undeploy
[[ $(pod) == "$before" ]] || wrong "the running pod was $before, is $(pod)"
left=$(kubectl get all,cm,secrets,sa,roles,rolebindings,jobs,leases,pdb -A -o name | grep lj-runtimekit || :)
left+=$(kubectl get clusterroles,clusterrolebindings,runtimeclasses,mutatingadmissionpolicies,mutatingadmissionpolicybindings -o name 2>/dev/null | grep -E 'lj-runtime' || :)
left+=$(kubectl get node node-1 -o 'jsonpath={.metadata.annotations} {.metadata.finalizers} {.status.capacity}' | grep -oE '"(lj-runtimekit|aliyun.com|alibabacloud.com)[^"]*"' || :)
[[ -z $left ]] || wrong "left behind: $left"
# kubelet does not bring a name back at its next status updates.
sleep 15
left=$(kubectl get node node-1 -o 'jsonpath={.status.capacity}' | grep -oE '"(aliyun.com|alibabacloud.com)[^"]*"' || :)
[[ -z $left ]] || wrong "came back: $left"
e2e/cluster.sh run deploy/deploy-all.sh undeploy | grep -q 'nothing was there' || wrong 'a second undeploy found something'
echo 'undeploy: nothing is left, and the pod runs on'
