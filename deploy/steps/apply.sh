# shellcheck shell=bash
# From the manifests to the cluster.

# Server-side apply, under one name and with force:
# - what somebody changed by hand on a field that a manifest sets is set back (replicas too); other fields are left;
# - a field that a later version no longer sets goes away, with no annotation to remember it by;
# - data that a program fills in (the extender's certificate) is not in the manifest, has another owner, and stays.
# Client-side apply would do none of the three without its last-applied annotation, and that loses against `kubectl edit`.
readonly APPLY=(--server-side --force-conflicts --field-manager=lj-runtimekit-deploy)
NAMES_CHANGED=''

# What is changed in a manifest on its way to the cluster, and all that is:
# 1. `namespace: kube-system` and `resourceNamespace: kube-system` at the end of a line, `--x=kube-system` and
#    `--x=kube-system/…` in arguments, and `lj-runtimekit….kube-system.svc` follow --namespace. Quoted names stay.
# 2. The kit's images, `--job-image` too, get --registry before their name and --version as their tag.
# 3. The tag of kube-scheduler is the cluster's version, whatever follows the patch number left out.
# 4. `nodeSelector` names the label of the configuration.
# 5. `lj-runtimekit/config-checksum: ""` gets the checksum of the configuration's data.
rewritten() { # manifest
  local script=(
    -e "s#([nN]amespace:) kube-system\$#\\1 $NAMESPACE#"
    -e "s#^( *- --[a-z-]+=)kube-system(/|\$)#\\1$NAMESPACE\\2#"
    -e "s#(lj-runtimekit[a-z-]*)\\.kube-system\\.svc#\\1.$NAMESPACE.svc#g"
    -e "s#(nodeSelector:) \\{lj_runtimekit_enable: \"true\"\\}#\\1 {\"${NAMES[nodeLabel.key]}\": \"${NAMES[nodeLabel.value]}\"}#"
    -e "s#(lj-runtimekit/config-checksum:) \"\"#\\1 \"$(config_checksum)\"#"
  )
  [[ -z $VERSION ]] || script+=(-e "s#((image: |--job-image=)lj-runtimekit-[a-z-]+):[^ \"]+#\\1:$VERSION#")
  [[ -z $REGISTRY ]] || script+=(-e "s#(image: |--job-image=)(lj-runtimekit-)#\\1$REGISTRY/\\2#")
  if [[ ${SERVER_VERSION:-} =~ ^v[0-9]+\.[0-9]+\.[0-9]+ ]]; then
    script+=(-e "s#(image: [^ ]*/kube-scheduler):[^ \"]+#\\1:${BASH_REMATCH[0]}#")
  fi
  sed -E "${script[@]}" "$1"
}

# The manifests of a folder that are to be applied, in order; the others are told to standard error.
manifests_of() { # folder
  local file
  for file in "$1"/[0-9][0-9]-*.yaml; do
    if [[ $file == *.optional.yaml ]] && ! is_served "$file"; then
      say "left out ${file#"$here/"}: this cluster does not serve its kinds; instead: docs/DEPLOY.md#pods-without-the-policy" >&2
    elif [[ $file == */00-runtimeclass.yaml ]] && somebodys_runtime_class; then
      say 'left out 00-runtimeclass.yaml: the RuntimeClass lj-runtime is there already, and not ours' >&2
    else
      echo "$file"
    fi
  done
}

# One that an administrator made is used as it is, and not taken away by undeploy.
somebodys_runtime_class() {
  [[ $(kubectl get runtimeclass lj-runtime --ignore-not-found \
    -o 'jsonpath={.metadata.name}={.metadata.labels.app\.kubernetes\.io/part-of}') == lj-runtime= ]]
}

rewritten_folder() { # folder
  local file
  for file in "$1"/[0-9][0-9]-*.yaml; do
    echo ---
    rewritten "$file"
  done
}

apply_folder() { # folder
  local file files
  files=$(manifests_of "$1")
  while IFS= read -r file; do apply_file "$file"; done <<<"$files"
}

# `kubectl apply --server-side` does not say whether anything changed, so what the API server counts is compared:
# an object's generation (its spec, without its status), or its version where it has none.
readonly COUNTED='{{define "o"}}{{.kind}}/{{.metadata.name}} {{or .metadata.generation .metadata.resourceVersion}}{{"\n"}}{{end}}{{if eq .kind "List"}}{{range .items}}{{template "o" .}}{{end}}{{else}}{{template "o" .}}{{end}}'

apply_file() { # manifest
  local text before after name count line
  text=$(rewritten "$1")
  before=$(kubectl get -f - --ignore-not-found -o "go-template=$COUNTED" <<<"$text") ||
    fail "${1#"$here/"}: the cluster can not be asked. Mend what is said above; the same command again goes on"
  after=$(kubectl apply "${APPLY[@]}" -f - -o "go-template=$COUNTED" <<<"$text") ||
    fail "${1#"$here/"} is not applied. Mend what is said above; the same command again goes on"
  while read -r name count; do
    line=$(awk -v name="$name" '$1 == name { print $2; exit }' <<<"$before")
    case $line in
      '') say "made       $name" ;;
      "$count") say "unchanged  $name" ;;
      *) say "changed    $name"
        [[ $name != "ConfigMap/$CONFIG" ]] || NAMES_CHANGED=yes ;;
    esac
  done <<<"$after"
}

namespace_is_there() {
  local level
  if [[ -z $(kubectl get namespace "$NAMESPACE" --ignore-not-found -o name) ]]; then
    # hostPath and the node's network: pods that the stricter levels of Pod Security refuse.
    kubectl apply "${APPLY[@]}" -f - -o name <<END | sed 's/^/made       /'
apiVersion: v1
kind: Namespace
metadata:
  name: $NAMESPACE
  labels:
    ${PART_OF/=/: }
    pod-security.kubernetes.io/enforce: privileged
END
    return
  fi
  level=$(kubectl get namespace "$NAMESPACE" -o 'jsonpath={.metadata.labels.pod-security\.kubernetes\.io/enforce}')
  [[ ${level:-privileged} == privileged ]] ||
    say "WARN  $NAMESPACE admits only $level pods, and the programs on nodes use hostPath: kubectl label namespace $NAMESPACE --overwrite pod-security.kubernetes.io/enforce=privileged"
}

# kubectl shows what is in a Secret as asterisks.
differences() {
  local folder file text code=0 files=()
  if [[ -z $(kubectl get namespace "$NAMESPACE" --ignore-not-found -o name) ]]; then
    say "namespace/$NAMESPACE would be made, and in it:"
    for folder in "$here" $(for c in "${CHOSEN[@]}"; do folder_of "$c"; done); do
      for file in $(manifests_of "$folder"); do
        rewritten "$file" | kubectl apply --dry-run=client -f - | sed 's/ (dry run)$//'
      done
    done
    return
  fi
  for folder in "$here" $(for c in "${CHOSEN[@]}"; do folder_of "$c"; done); do
    mapfile -t -O "${#files[@]}" files < <(manifests_of "$folder")
  done
  text=$(for file in "${files[@]}"; do echo ---; rewritten "$file"; done)
  kubectl diff "${APPLY[@]}" -f - <<<"$text" || code=$?
  case $code in
    0) say 'nothing would change' ;;
    1) say 'nothing was changed: this was a dry run' ;;
    *) fail "the API server would not take it: mend what is said above" ;;
  esac
}
