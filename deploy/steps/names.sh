# shellcheck shell=bash
# The names in the shared configuration: which label, which annotations.

readonly CONFIG=lj-runtimekit-config
readonly CONFIG_FILE=00-config.yaml
readonly PART_OF=app.kubernetes.io/part-of=lj-runtimekit

# The programs' own defaults (docs/CONFIGURATION.md), for what the file leaves out.
declare -Ar DEFAULT_NAMES=(
  [nodeLabel.key]=lj_runtimekit_enable
  [nodeLabel.value]=true
  [annotations.assigned]=lj-runtimekit/assigned
  [annotations.allocated]=lj-runtimekit/allocated
  [annotations.inventory]=lj-runtimekit/inventory
  [annotations.ownedResources]=lj-runtimekit/owned-resources
  [annotations.lastActionStatus]=lj-runtimekit-controller/last-action-status
)
declare -A NAMES

file_config() { # the configuration in the manifest
  awk '/^  config\.yaml: *\|/ { inside = 1; next } inside && /^[^ ]/ { exit } inside { print substr($0, 5) }' "$here/$CONFIG_FILE"
}

cluster_config() { # the configuration in the cluster; nothing where there is none
  kubectl get configmap "$CONFIG" -n "$NAMESPACE" --ignore-not-found -o 'jsonpath={.data.config\.yaml}'
}

read_names() { # configuration: fills NAMES; understands `a: {b: c}` as well as a block
  local key value
  NAMES=()
  for key in "${!DEFAULT_NAMES[@]}"; do NAMES[$key]=${DEFAULT_NAMES[$key]}; done
  while IFS='=' read -r key value; do
    [[ -z ${DEFAULT_NAMES[$key]:-} || -z $value ]] || NAMES[$key]=$value
  done < <(awk '
    function told(line,  key) {
      sub(/[ \t]#.*$/, "", line)
      key = line; sub(/:.*$/, "", key); sub(/^[^:]*:/, "", line)
      gsub(/^[ \t"\047]+|[ \t"\047]+$/, "", key); gsub(/^[ \t"\047]+|[ \t"\047]+$/, "", line)
      print section "." key "=" line
    }
    /^[A-Za-z]/ {
      section = $0; sub(/:.*$/, "", section)
      if (match($0, /\{.*\}/)) {
        n = split(substr($0, RSTART + 1, RLENGTH - 2), pair, ",")
        for (i = 1; i <= n; i++) told(pair[i])
      }
      next
    }
    /^ +[A-Za-z]+:/ { told($0) }' <<<"$1")
  # They end up in commands and manifests.
  for key in "${!NAMES[@]}"; do
    [[ ${NAMES[$key]} =~ ^[-A-Za-z0-9_./]*$ ]] || fail "$key in $CONFIG is '${NAMES[$key]}', which is no name: mend deploy/$CONFIG_FILE"
  done
}

config_checksum() { # of the data alone: a comment or a label restarts nothing
  sed -n '/^data:/,$p' "$here/$CONFIG_FILE" | sha256sum | cut -d' ' -f1
}

installed_in() { # the namespaces with the kit's configuration
  kubectl get configmaps -A -l "$PART_OF" --field-selector "metadata.name=$CONFIG" \
    -o 'jsonpath={.items[*].metadata.namespace}'
}

choose_namespace() {
  # Cluster-wide objects have one name each, so two installations would take them from each other.
  local there
  there=$(installed_in) || there=''
  there=${there%% *}
  if [[ -n $there && -n $NAMESPACE && $there != "$NAMESPACE" ]]; then
    fail "the kit is installed in the namespace $there: use --namespace=$there, or undeploy there first"
  fi
  NAMESPACE=${NAMESPACE:-${there:-kube-system}}
}
