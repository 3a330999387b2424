#!/usr/bin/env bash
# Writes the names of all Services as a hosts file, again at each change: e2e/services.sh KUBECTL KUBECONFIG FOLDER
set -euo pipefail
kubectl=$1 kubeconfig=$2 folder=$3
while :; do
  "$kubectl" --kubeconfig "$kubeconfig" get services --all-namespaces --output \
    'jsonpath={range .items[*]}{.spec.clusterIP} {.metadata.name}.{.metadata.namespace}.svc.cluster.local {.metadata.name}.{.metadata.namespace}.svc{"\n"}{end}' \
    >"$folder/.new" 2>/dev/null && ! cmp -s "$folder/.new" "$folder/services" && cp "$folder/.new" "$folder/services"
  sleep 1
done
