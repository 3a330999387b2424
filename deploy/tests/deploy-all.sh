#!/usr/bin/env bash
# Fast tests of deploy-all.sh, with a kubectl that writes down what it was called with and knows as much of a cluster as two
# files say: $CLUSTER/objects (namespace, object, its label) and $CLUSTER/annotations (node, key, value). No cluster, no root.
# shellcheck disable=SC2016,SC2034    # conditions are evaluated by `check`
set -euo pipefail
script=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/deploy-all.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CALLS=$work/calls CLUSTER=$work LJ_RUNTIMEKIT_DEPLOY_LOG=$work/log
unset lj_runtimekit_version
failed=0

mkdir "$work/bin"
cat >"$work/bin/kubectl" <<'STUB'
#!/usr/bin/env bash
echo "$*" >>"$CALLS"
case "$*" in
  'version --client -o json') echo '{"gitVersion": "v1.36.3"}' ;;
  'get --raw /version'*) [[ -z ${DOWN:-} ]] || { echo 'connection refused' >&2; exit 1; }
    echo "{\"gitVersion\": \"${SERVER:-v1.36.3-vendor.1}\"}" ;;
  'get --raw /apis/admission'*) [[ -z ${POLICY:-} ]] || echo '{"resources":[{"kind":"MutatingAdmissionPolicy"},{"kind":"MutatingAdmissionPolicyBinding"}]}' ;;
  'create --validate=false -f - -o jsonpath='*) sed -nE "s/.*verb: ([a-z]+),.*resource: ([a-z]+),.*/${ALLOWED:-true} \\1 \\2/p" ;;
  'get namespace kube-system '*-o\ name) echo namespace/kube-system ;;
  'get nodes -l '*) [[ -n ${UNLABELLED:-} ]] || echo node-1 ;;
  'get configmaps -A '*) printf '%s' "${INSTALLED:-}" ;;
  'get -f '*) cat >/dev/null ;;
  apply*) tee -a "$CALLS.applied" | awk '/^kind:/ { kind = $2 } /^  name:/ && kind { print kind "/" $2 " 1"; kind = "" }' ;;
  diff*) cat >>"$CALLS.diffed"; echo '+ something'; exit 1 ;;
  'get nodes -o go-template='*'.metadata.annotations'*)
    key=$(sed -E 's/.*index \. "([^"]*)".*/\1/' <<<"$*")
    awk -v key="$key" '$2 == key { print $1, $3 }' "$CLUSTER/annotations" ;;
  'get configmap lj-runtimekit-config '*'.data.config'*) [[ -z ${ENDS_HERE:-} ]] || exit 1
    [[ ! -e $CLUSTER/config ]] || cat "$CLUSTER/config" ;;
  'annotate node '*-)
    awk -v node="$3" -v key="${4%-}" '$1 != node || $2 != key' "$CLUSTER/annotations" >"$CLUSTER/new" && mv "$CLUSTER/new" "$CLUSTER/annotations" ;;
  'get leases -n '*' -o name')
    awk -v namespace="$4" '$1 == namespace && $2 ~ /^lease\./ { print $2 }' "$CLUSTER/objects" ;;
  get*' -l '*'-o name')
    namespace=-
    [[ $3 != -n ]] || namespace=$4
    awk -v kinds="$2" -v namespace="$namespace" -v selector="$*" '
      { kind = $2; sub(/\/.*/, "", kind); sub(/[^.]+/, "&s", kind) }
      $1 == namespace && index("," kinds ",", "," kind ",") && index(selector, $3) { print $2 }' "$CLUSTER/objects" ;;
  'delete '*)
    [[ $2 != "${STUCK:-}" ]] || { echo 'forbidden' >&2; exit 1; }
    awk -v object="$2" '$2 != object' "$CLUSTER/objects" >"$CLUSTER/new" && mv "$CLUSTER/new" "$CLUSTER/objects" ;;
esac
STUB
chmod +x "$work/bin/kubectl"
export PATH=$work/bin:$PATH

: >"$CLUSTER/objects"
: >"$CLUSTER/annotations"

run() { # arguments …: fills code and out
  rm -f "$CALLS"*
  : >"$CALLS"
  code=0
  out=$(bash "$script" "$@" 2>&1) || code=$?
}
check() { # what, condition …
  local what=$1
  shift
  if "$@"; then
    echo "ok    $what"
  else
    failed=$((failed + 1))
    echo "FAIL  $what (code $code)"
    printf '%s\n' "$out" | sed 's/^/      | /'
  fi
}
says() { [[ $out == *"$1"* ]]; }
is_code() { [[ $code == "$1" ]]; }
refused() { is_code 64 && says "$1" && [[ ! -s $CALLS ]]; }    # with no call to the cluster
changed_nothing() { ! grep -E '^(apply|create|patch|delete|label|annotate|replace)' "$CALLS" | grep -qv '^create --validate=false -f - -o jsonpath={.status.allowed}'; }

# ---- arguments ----
run; check 'no verb: usage' is_code 64
run nonsense; check 'an unknown verb' refused "no verb 'nonsense'"
run --help; check 'help' eval 'is_code 0 && says --components && ! says "set -e"'
run deploy --components=scheduler,plugin; check 'an unknown component, and the known ones' refused "no component 'plugin': device-plugin scheduler exporter controller"
run deploy --components=; check 'no component' refused 'names none of'
for bad in Kube -a a- 'a b' "$(printf 'a%.0s' {1..64})"; do
  run deploy "--namespace=$bad"; check "no namespace: ${bad:0:10}" refused 'is no name of a namespace'
done
for bad in '' 5 2x m s 1.5m -1s 99999999s; do
  run deploy "--wait=$bad"; check "no duration: '$bad'" refused 'is no duration'
done
run deploy --version=a/b; check 'no tag' refused 'is no image tag'
lj_runtimekit_version='1 2' run deploy; check 'no tag in the environment' refused 'is no image tag'
run deploy '--registry=a b'; check 'no registry' refused 'is no image prefix'
run deploy --wat; check 'an unknown option' refused "no option '--wat'"

# ---- checks ----
DOWN=1 run deploy; check 'no API server: what to mend' eval 'is_code 1 && says "KUBECONFIG" && changed_nothing'
SERVER=v1.20.4 run deploy; check 'an API server too old' eval 'is_code 1 && says "no server-side apply" && changed_nothing'
SERVER=v1.24.4 run deploy --wait=0; check 'an API server that is not tested' eval 'is_code 0 && says "WARN  API server v1.24.4"'
ALLOWED=false run deploy; check 'no rights: which' eval 'is_code 1 && says "create serviceaccounts" && says "patch poddisruptionbudgets" && changed_nothing'
ALLOWED=false run undeploy; check '… to undeploy too' eval 'is_code 1 && says "delete poddisruptionbudgets" && says "list leases" && says "delete leases" && changed_nothing'
UNLABELLED=1 run deploy; check 'no labelled node: how to label one' eval 'is_code 1 && says "kubectl label node NODE lj_runtimekit_enable=true" && changed_nothing'
UNLABELLED=1 run deploy --wait=0 --without-nodes; check 'no labelled node, and that is meant' is_code 0
UNLABELLED=1 run deploy --wait=0 --components=scheduler,controller; check 'what runs on no node needs no label' is_code 0
INSTALLED=elsewhere run deploy --namespace=here; check 'installed in another namespace' eval 'is_code 1 && says "--namespace=elsewhere" && changed_nothing'

# ---- deploying ----
run deploy --wait=0
check 'deploys' is_code 0
check 'two extenders with a lease that they may keep, and a disruption budget' eval \
  'says "made       PodDisruptionBudget/lj-runtimekit-scheduler" && grep -q -- "--lease=kube-system/lj-runtimekit-scheduler$" "$CALLS.applied" && grep -A1 "resources: \[leases\]" "$CALLS.applied" | grep -q "resourceNames: \[lj-runtimekit-scheduler\]"'
check 'how to see which of them leads' says 'kubectl get lease -n kube-system lj-runtimekit-scheduler'
order=$(sed -n 's/^kind: DaemonSet$/&/p; s/^  name: \(lj-runtimekit-[a-z-]*\)$/\1/p' "$CALLS.applied" | grep -v Daemon | awk '!seen[$0]++' | tr '\n' ' ')
check 'shared first, then the components in order' eval \
  '[[ $order == "lj-runtimekit-config lj-runtimekit-device-plugin lj-runtimekit-scheduler "*lj-runtimekit-exporter*"lj-runtimekit-controller "* ]]'
check 'without the kinds, the policy is left out and told' eval 'says "left out scheduler/05-policy.optional.yaml" && says "docs/DEPLOY.md#pods-without-the-policy" && ! grep -q AdmissionPolicy "$CALLS.applied"'
POLICY=1 run deploy --wait=0; check 'with the kinds it is applied' grep -q '^kind: MutatingAdmissionPolicy$' "$CALLS.applied"
run deploy --wait=0 --components=exporter
check 'one component alone' eval 'is_code 0 && grep -q lj-runtimekit-exporter "$CALLS.applied" && ! grep -Eq "name: lj-runtimekit-(scheduler|controller|device-plugin)" "$CALLS.applied"'
run deploy --dry-run; check 'a dry run shows and changes nothing' eval 'is_code 0 && says "+ something" && changed_nothing && [[ -s $CALLS.diffed ]]'
run undeploy; check 'nothing there to undeploy' eval 'is_code 0 && says "nothing was there" && changed_nothing'
check 'the log has the times and the same lines' grep -Eq '^[0-9:]{8} == nothing was there$' "$LJ_RUNTIMEKIT_DEPLOY_LOG"

ENDS_HERE=1 run deploy; check 'a failure that nobody foresaw ends with what to do' eval 'is_code 1 && says "FAIL  stopped at what is said above. The same command again goes on"'

# ---- undeploying ----
installed() {
  cat >"$CLUSTER/objects" <<'END'
kube-system configmap/lj-runtimekit-config part-of
kube-system deployment.apps/lj-runtimekit-controller lj-runtimekit-controller
kube-system job.batch/lj-agent-n1-enable lj-runtimekit-controller-job-agent
kube-system serviceaccount/lj-runtimekit-controller lj-runtimekit-controller
default role.rbac.authorization.k8s.io/lj-runtimekit-controller-events lj-runtimekit-controller
kube-system daemonset.apps/lj-runtimekit-exporter lj-runtimekit-exporter
- clusterrole.rbac.authorization.k8s.io/lj-runtimekit-exporter lj-runtimekit-exporter
- runtimeclasse/lj-runtime part-of
kube-system deployment.apps/lj-runtimekit-scheduler lj-runtimekit-scheduler
kube-system poddisruptionbudget.policy/lj-runtimekit-scheduler lj-runtimekit-scheduler
kube-system lease.coordination.k8s.io/lj-runtimekit-scheduler -
kube-system lease.coordination.k8s.io/lj-runtimekit-kube-scheduler -
kube-system lease.coordination.k8s.io/kube-scheduler other
kube-system secret/somebody-elses other
END
  cat >"$CLUSTER/annotations" <<'END'
n1 lj-runtimekit-controller/last-action-status {"v":1}
n1 lj-runtimekit/inventory {"v":1}
n1 somebody/elses x
END
}
deleted() { sed -n 's#^delete \([^ ]*\) .*#\1#p' "$CALLS"; }
installed
run undeploy --dry-run
check 'a dry run lists what would go' eval 'is_code 0 && changed_nothing && says "job.batch/lj-agent-n1-enable in kube-system" && says "annotation lj-runtimekit/inventory of node/n1"'
run undeploy --components=controller
check 'one component: its objects, Jobs and annotation' eval 'is_code 0 && [[ $(deleted | wc -l) == 4 && $(wc -l <"$CLUSTER/objects") == 10 ]] && ! grep -q last-action "$CLUSTER/annotations"'
check '… and what is shared, or of another one, stays' eval '! deleted | grep -q lease && grep -q lj-runtimekit-config "$CLUSTER/objects" && grep -q inventory "$CLUSTER/annotations" && says "other components are there"'
run undeploy
check 'the rest, with what is shared' eval '[[ $code == 0 && $(cat "$CLUSTER/annotations") == *elses* && $(wc -l <"$CLUSTER/annotations") == 1 ]]'
check '… and nothing of others: leases have no label to go by' eval '[[ $(cut -d" " -f2,3 "$CLUSTER/objects" | tr "\n" " ") == "lease.coordination.k8s.io/kube-scheduler other secret/somebody-elses other " ]]'
installed
run undeploy --components=scheduler
check 'the scheduler goes with its disruption budget and the leases that the programs made' eval \
  'is_code 0 && [[ $(deleted | tr "\n" " ") == "deployment.apps/lj-runtimekit-scheduler poddisruptionbudget.policy/lj-runtimekit-scheduler lease.coordination.k8s.io/lj-runtimekit-scheduler lease.coordination.k8s.io/lj-runtimekit-kube-scheduler " ]]'
installed
STUCK=lease.coordination.k8s.io/lj-runtimekit-scheduler run undeploy
check 'a lease that stays is told' eval 'is_code 1 && says "left: kube-system lease.coordination.k8s.io/lj-runtimekit-scheduler. The same"'
installed
run undeploy
check 'programs before their rights, the configuration last' eval \
  '[[ $(deleted | tr "\n" " ") == deployment*daemonset*serviceaccount*clusterrole*lease*configmap* ]]'
installed
STUCK=serviceaccount/lj-runtimekit-controller run undeploy
check 'what can not be deleted is told' eval 'is_code 1 && says "left: kube-system serviceaccount/lj-runtimekit-controller. The same command again"'
run undeploy; check '… and goes with the next call' eval 'is_code 0 && [[ $(wc -l <"$CLUSTER/objects") == 2 ]]'
: >"$CLUSTER/objects"
: >"$CLUSTER/annotations"

# ---- what is rewritten ----
images() { grep -Eo '(image: |--job-image=)[^ "]*' "$CALLS.applied" | sort -u; }
POLICY=1 run deploy --wait=0
check 'images as in the manifests' eval '! images | grep -v kube-scheduler | grep -Evq ": ?lj-|=lj-"'
check 'kube-scheduler has the version of the cluster' eval 'images | grep -qx "image: registry.k8s.io/kube-scheduler:v1.36.3"'
check 'no checksum is empty' eval 'grep -Eq "config-checksum: \"[0-9a-f]{64}\"" "$CALLS.applied" && ! grep -q "config-checksum: \"\"" "$CALLS.applied"'
lj_runtimekit_version=1.2.3 POLICY=1 run deploy --wait=0
check 'the version of the environment' eval '[[ $(images | grep -c ":1.2.3$") == 5 ]] && ! images | grep -v kube-scheduler | grep -vq ":1.2.3$"'
lj_runtimekit_version=1.2.3 POLICY=1 run deploy --wait=0 --version=9.9 --registry=r.example:5000/kit/ --namespace=kit
check '--version wins, with --registry' eval '[[ $(images | grep -Ec "^(image: |--job-image=)r\.example:5000/kit/lj-runtimekit-[a-z-]+:9\.9$") == 5 ]]'
check 'another namespace is followed everywhere' eval \
  '! sed "s/#.*//" "$CALLS.applied" | grep kube-system | grep -v "\"kube-system\"" && grep -q "^  namespace: kit$" "$CALLS.applied"'
check '… in arguments and names of services' eval \
  'grep -q -- "--job-namespace=kit$" "$CALLS.applied" && grep -q -- "--tls-secret=kit/lj" "$CALLS.applied" && grep -q -- "--lease=kit/lj-runtimekit-scheduler$" "$CALLS.applied" && grep -q "lj-runtimekit-scheduler.kit.svc:" "$CALLS.applied"'
check '… and quoted names stay' eval 'grep -q "namespace: \"kube-system\"" "$CALLS.applied" && grep -q "namespace: \"default\"" "$CALLS.applied"'
check 'the namespace is made, for privileged pods' eval 'grep -q "enforce: privileged" "$CALLS.applied"'

# ---- names ----
copy=$work/deploy
cp -r "$(dirname "$script")" "$copy"
original=$script script=$copy/deploy-all.sh
checksum() { grep -Eo 'config-checksum: .*' "$CALLS.applied" | sort -u; }
run deploy --wait=0; before=$(checksum)
sed -i '1i # a comment' "$copy/00-config.yaml"
run deploy --wait=0; check 'a comment restarts nothing' eval '[[ $(checksum) == "$before" ]]'
sed -i 's/weight: 10/weight: 9/' "$copy/scheduler/04-kube-scheduler.yaml"
run deploy --wait=0; check "kube-scheduler's own configuration restarts it alone" eval '[[ $(checksum | grep -cxF "$before") == 1 && $(checksum | wc -l) == 2 ]]'
run deploy --wait=0; before=$(checksum)
sed -i 's/key: lj_runtimekit_enable/key: example.com\/cards/' "$copy/00-config.yaml"
run deploy --wait=0
check 'a new name restarts all' eval '! checksum | grep -qxF "$before"'
check 'node selectors follow the label' eval 'grep -q "nodeSelector: {\"example.com/cards\": \"true\"}" "$CALLS.applied" && ! grep -q "nodeSelector: {lj_" "$CALLS.applied"'
echo n1 old.example/cards x >"$CLUSTER/annotations"
printf 'annotations:\n  inventory: old.example/cards\n' >"$CLUSTER/config"
run deploy --wait=0
check 'what stands on nodes goes to a new key, and the old one is noted' eval \
  'grep -q "annotate node n1 --overwrite lj-runtimekit/inventory=x" "$CALLS" && grep -q "former-annotations=old.example/cards" "$CALLS"'
rm "$CLUSTER/config"
sed -i -e '/^    nodeLabel:/,+2d' -e 's/^    placement:/    nodeLabel: {key: "flow", value: on}   # said\n&/' "$copy/00-config.yaml"
run deploy --wait=0; check 'flow style is read' grep -q 'nodeSelector: {"flow": "on"}' "$CALLS.applied"
sed -i 's/key: "flow"/key: "a b;c"/' "$copy/00-config.yaml"
run deploy --wait=0; check 'what is no name is refused' eval 'is_code 1 && says "which is no name" && changed_nothing'
script=$original

[[ $failed == 0 ]] || { echo "$failed failed"; exit 1; }
echo 'all passed'
