use super::*;

fn node(name: &str, allocatable: &Value) -> Value {
    json!({"metadata": {"name": name, "labels": {"zone": name}}, "spec": {},
        "status": {"allocatable": allocatable}})
}

fn pod(name: &str, resource: &str, amount: u32) -> Value {
    json!({"metadata": {"namespace": "a", "name": name, "uid": name}, "spec": {"containers": [
        {"resources": {"requests": {resource: amount.to_string()}}}]}})
}

fn cluster(nodes: &[Value]) -> Cluster {
    let mut cluster = Cluster::default();
    for node in nodes {
        cluster.apply_node(node.clone());
    }
    cluster
}

fn reasons(verdict: &Verdict, node: &str) -> String {
    verdict
        .rejected
        .get(node)
        .map_or(String::new(), |r| r.reasons.join(", "))
}

#[test]
fn a_node_has_room_for_what_is_left_of_it() {
    let mut cluster = cluster(&[node("n", &json!({"a.io/gpu": "2"}))]);
    let (first, second) = (pod("p", "a.io/gpu", 1), pod("q", "a.io/gpu", 2));
    assert_eq!(filter(&second, &cluster, &[]).fits, ["n"]);
    cluster.assume(&first, "n");
    let verdict = filter(&second, &cluster, &[]);
    assert_eq!(reasons(&verdict, "n"), "Insufficient a.io/gpu");
    assert!(!verdict.rejected["n"].unresolvable);
    assert!(filter(&pod("r", "a.io/gpu", 3), &cluster, &[]).rejected["n"].unresolvable);
    assert_eq!(filter(&second, &cluster, &["a.io/gpu".into()]).fits, ["n"]);
    // The assumed pod is seen bound, ends, and what it held is free.
    let mut seen = first.clone();
    seen["spec"]["nodeName"] = json!("n");
    assert!(!cluster.apply_pod(&seen));
    assert!(filter(&second, &cluster, &[]).fits.is_empty());
    seen["status"] = json!({"phase": "Succeeded"});
    assert!(cluster.apply_pod(&seen));
    assert_eq!(filter(&second, &cluster, &[]).fits, ["n"]);
}

#[test]
fn an_assumed_pod_is_forgotten_when_it_is_not_bound() {
    let mut cluster = cluster(&[node("n", &json!({"a.io/gpu": "1"}))]);
    let pod = pod("p", "a.io/gpu", 1);
    cluster.assume(&pod, "n");
    // A change of the unbound pod is no sign of anything.
    assert!(!cluster.apply_pod(&pod));
    assert!(filter(&pod, &cluster, &[]).fits.is_empty());
    cluster.forget(&super::super::cluster::key(&pod));
    assert_eq!(filter(&pod, &cluster, &[]).fits, ["n"]);
}

#[test]
fn cordons_taints_and_selectors_keep_pods_away() {
    let mut cordoned = node("cordoned", &json!({}));
    cordoned["spec"]["unschedulable"] = json!(true);
    let mut tainted = node("tainted", &json!({}));
    tainted["spec"]["taints"] = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
    let cluster = cluster(&[cordoned, node("free", &json!({})), tainted]);
    let mut pod = pod("p", "a.io/gpu", 0);
    let verdict = filter(&pod, &cluster, &[]);
    assert_eq!(verdict.fits, ["free"]);
    assert_eq!(
        reasons(&verdict, "tainted"),
        "node(s) had untolerated taint {k: v}"
    );
    pod["spec"]["tolerations"] = json!([{"key": "k", "operator": "Exists"}]);
    assert_eq!(filter(&pod, &cluster, &[]).fits, ["free", "tainted"]);
    pod["spec"]["nodeSelector"] = json!({"zone": "tainted"});
    assert_eq!(filter(&pod, &cluster, &[]).fits, ["tainted"]);
    pod["spec"]["affinity"] = json!({"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["tainted"]}]}]}}});
    assert!(filter(&pod, &cluster, &[]).fits.is_empty());
}

#[test]
fn a_node_takes_so_many_pods() {
    let mut cluster = cluster(&[node("n", &json!({"pods": "1"}))]);
    cluster.assume(&pod("p", "cpu", 0), "n");
    assert_eq!(
        reasons(&filter(&pod("q", "cpu", 0), &cluster, &[]), "n"),
        "Too many pods"
    );
}

#[test]
fn the_message_has_the_shape_that_people_know() {
    let cluster = cluster(&[
        node("a", &json!({})),
        node("b", &json!({"a.io/gpu": "8"})),
        node("c", &json!({})),
    ]);
    let pod = pod("p", "a.io/gpu", 1);
    let mut verdict = filter(&pod, &cluster, &[]);
    verdict.fits.clear();
    let reason = "no card has 50 core and 24GiB free".to_owned();
    verdict
        .rejected
        .insert("b".into(), Rejection::by_extender(reason, false));
    let nodes = cluster.nodes().keys().cloned().collect();
    assert_eq!(
        message(&pod, &nodes, &verdict),
        "0/3 nodes are available: 1 no card has 50 core and 24GiB free, 2 Insufficient a.io/gpu. \
         preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, \
         2 Preemption is not helpful for scheduling."
    );
    let none = BTreeSet::new();
    assert_eq!(
        message(&pod, &none, &Verdict::default()),
        "no nodes available to schedule pods"
    );
}

#[test]
fn the_best_score_wins_then_the_fewest_pods_then_the_name() {
    let mut cluster = cluster(&[
        node("a", &json!({})),
        node("b", &json!({})),
        node("c", &json!({})),
    ]);
    let fits: Vec<String> = ["a", "b", "c"].map(str::to_owned).into();
    let scores = |list: &[(&str, i64)]| list.iter().map(|(n, s)| ((*n).to_owned(), *s)).collect();
    assert_eq!(choose(&fits, &BTreeMap::new(), &cluster), Some("a"));
    cluster.assume(&pod("p", "cpu", 1), "a");
    assert_eq!(choose(&fits, &BTreeMap::new(), &cluster), Some("b"));
    assert_eq!(
        choose(&fits, &scores(&[("a", 3), ("c", 7)]), &cluster),
        Some("c")
    );
    assert_eq!(choose(&[], &BTreeMap::new(), &cluster), None);
}
