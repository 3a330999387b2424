# shellcheck shell=bash
# What the programs wrote on nodes, and how it goes.

# kubelet writes a removed name back at its next status update, every 10 s where nobody changed that.
readonly STAYS_AWAY=15

annotated_nodes() { # annotation: the nodes that have it, each with its value
  kubectl get nodes -o "go-template={{range .items}}{{\$n := .metadata.name}}{{with .metadata.annotations}}{{with index . \"$1\"}}{{\$n}} {{.}}{{\"\\n\"}}{{end}}{{end}}{{end}}"
}

owned_resources() { # one line for each: node, resource
  local node names name
  while read -r node names; do
    for name in $(tr -d '[]"' <<<"$names" | tr ',' ' '); do echo "$node $name"; done
  done < <(annotated_nodes "${NAMES[annotations.ownedResources]}")
}

remove_annotation() { # annotation: from all nodes
  local node
  while read -r node _; do
    if kubectl annotate node "$node" "$1-" >/dev/null; then say "removed    $1 from node/$node"; fi
  done < <(annotated_nodes "$1")
}

# ---- when the annotations' keys change ----
# The values go to the new keys before the programs restart, so that these know what they did; the old keys go when no
# program is left that writes them. In between they are noted on the ConfigMap, in case this is broken off.

readonly FORMER=lj-runtimekit/former-annotations

former_annotations() {
  kubectl get configmap "$CONFIG" -n "$NAMESPACE" --ignore-not-found \
    -o "go-template={{with .metadata.annotations}}{{with index . \"$FORMER\"}}{{.}}{{end}}{{end}}"
}

annotations_are_copied() {
  local text which old node value former
  local -A new=()
  text=$(cluster_config)
  [[ -n $text ]] || return 0
  for which in inventory ownedResources lastActionStatus; do new[$which]=${NAMES[annotations.$which]}; done
  read_names "$text"
  former=$(former_annotations)
  for which in "${!new[@]}"; do
    old=${NAMES[annotations.$which]}
    [[ $old != "${new[$which]}" ]] || continue
    former="${former:+$former }$old"
    kubectl annotate configmap "$CONFIG" -n "$NAMESPACE" --overwrite "$FORMER=$former" >/dev/null
    while read -r node value; do
      kubectl annotate node "$node" --overwrite "${new[$which]}=$value" >/dev/null
      say "copied     $old of node/$node to ${new[$which]}"
    done < <(annotated_nodes "$old")
  done
  read_names "$(file_config)"
}

former_annotations_go() {
  local old former
  former=$(former_annotations)
  [[ -n $former ]] || return 0
  for old in $former; do
    # One that was taken back into use is not a former one.
    [[ " ${NAMES[*]} " == *" $old "* ]] || remove_annotation "$old"
  done
  kubectl annotate configmap "$CONFIG" -n "$NAMESPACE" "$FORMER-" >/dev/null
}

# ---- resource names ----

# node, its Ready condition, and name=count of its capacity
capacities() {
  kubectl get nodes -o 'go-template={{range .items}}{{.metadata.name}} {{range .status.conditions}}{{if eq .type "Ready"}}{{.status}}{{end}}{{end}}{{range $k, $v := .status.capacity}} {{$k}}={{$v}}{{end}}{{"\n"}}{{end}}'
}

take_name_out() { # node, resource
  local path=${2//\//~1} field operations=''
  for field in capacity allocatable; do
    [[ -z $(kubectl get node "$1" -o "go-template={{with index .status.$field \"$2\"}}there{{end}}") ]] ||
      operations+="${operations:+,}{\"op\":\"remove\",\"path\":\"/status/$field/$path\"}"
  done
  [[ -z $operations ]] || kubectl patch node "$1" --subresource=status --type=json -p "[$operations]" >/dev/null
}

# Takes the kit's resource names out of the nodes' status, and fills LEFT with those that did not go.
#
# kubelet keeps a resource for 5 minutes after its plugin has ended: it says how many there are (allocatable 0, so nothing
# is scheduled to them) and writes a name that was removed back every 10 s. Then it writes a count of 0, once, and never
# names it again. So that 0 is waited for and removed, which is the earliest moment at which a name can go for good;
# it is gone when it has stayed away for longer than kubelet takes to write. A kubelet that is down writes nothing: its
# node is cleaned at once, and has the names again for a while when kubelet is back.
withdraw_names() {
  local until=$((SECONDS + WAIT)) node name ready count line told='' all there key
  local -A away=()
  LEFT=()
  all=$(owned_resources)
  [[ -n $all ]] || return 0
  while :; do
    LEFT=()
    there=$(capacities)
    while read -r node name; do
      key=$node/$name
      line=$(awk -v node="$node" '$1 == node' <<<"$there")
      read -r _ ready _ <<<"$line"
      count=$(awk -v name="$name=" '{ for (i = 1; i <= NF; i++) if (index($i, name) == 1) print substr($i, length(name) + 1) }' <<<"$line")
      if [[ -z $count ]]; then
        away[$key]=${away[$key]:-$SECONDS}
        # What no kubelet can write back now is gone already.
        [[ -z $line || $ready != True || $((SECONDS - away[$key])) -ge $STAYS_AWAY ]] || LEFT+=("$key")
        continue
      fi
      unset "away[$key]"
      LEFT+=("$key")
      if [[ $count == 0 || $ready != True || $SECONDS -ge $until ]]; then
        take_name_out "$node" "$name" || say "WARN  $name is still named by node/$node"
      fi
    done <<<"$all"
    [[ ${#LEFT[@]} -gt 0 ]] || break
    [[ $SECONDS -lt $until ]] || return 1
    if [[ -z $told ]]; then
      say 'kubelet gives the names up 5 minutes after the plugin has ended; nothing is scheduled to them meanwhile.'
      say 'Ctrl-C does no harm: undeploy again goes on.'
    elif [[ $told -le $((SECONDS - 60)) ]]; then
      say "waiting for $(printf '%s\n' "${LEFT[@]%%/*}" | sort -u | tr '\n' ' ')(${#LEFT[@]} names, $((until - SECONDS)) s left)"
    fi
    [[ -n $told && $told -gt $((SECONDS - 60)) ]] || told=$SECONDS
    sleep 2 &
    wait $!
  done
  while read -r node name; do say "removed    $name from node/$node"; done <<<"$all"
}
