use super::*;

fn verdict() -> Verdict {
    Verdict {
        fits: ["a", "b", "c"].map(str::to_owned).into(),
        ..Verdict::default()
    }
}

fn result(value: Value) -> FilterResult {
    serde_json::from_value(value).unwrap()
}

#[test]
fn nodes_stay_or_go_as_the_extender_says() {
    let mut verdict = verdict();
    let answer = result(
        json!({"Nodes": null, "NodeNames": ["b"], "FailedNodes": {"a": "full"},
        "FailedAndUnresolvableNodes": {"c": "no card"}, "Error": ""}),
    );
    sort_out("u", true, &mut verdict, answer).unwrap();
    assert_eq!(verdict.fits, ["b"]);
    assert_eq!(
        verdict.rejected["a"],
        Rejection::by_extender("full".into(), false)
    );
    assert_eq!(
        verdict.rejected["c"],
        Rejection::by_extender("no card".into(), true)
    );
}

#[test]
fn no_list_is_no_node_and_a_node_in_no_list_has_no_reason() {
    let mut verdict = verdict();
    sort_out("u", true, &mut verdict, result(json!({}))).unwrap();
    assert!(verdict.fits.is_empty());
    assert!(verdict.rejected.is_empty());
}

#[test]
fn whole_nodes_are_read_where_names_are_not_agreed() {
    let mut verdict = verdict();
    let answer = result(json!({"Nodes": {"items": [{"metadata": {"name": "c"}}]}}));
    sort_out("u", false, &mut verdict, answer).unwrap();
    assert_eq!(verdict.fits, ["c"]);
}

#[test]
fn an_error_and_a_stranger_fail_the_pod() {
    let refused = sort_out(
        "u",
        true,
        &mut verdict(),
        result(json!({"Error": "not ready"})),
    );
    assert_eq!(refused.unwrap_err().to_string(), "not ready");
    let stranger = sort_out(
        "u",
        true,
        &mut verdict(),
        result(json!({"NodeNames": ["z"]})),
    );
    assert!(matches!(stranger, Err(ExtenderError::Stranger { node, .. }) if node == "z"));
}
