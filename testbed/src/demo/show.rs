//! What the demo prints.

use model::{
    plan::{Grant, GrantMode, Plan},
    quantity::MemoryBytes,
};

use crate::{cluster::NodeResources, stage::Stage};

use super::ADMIN_PARTS;

/// A heading.
pub(super) fn step(title: &str) {
    println!("\n== {title}");
}

/// One line of the story.
pub(super) fn line(text: &str) {
    println!("   {text}");
}

/// What one would type.
pub(super) fn command(text: &str) {
    println!("   $ {text}");
}

/// As `kubectl describe node` shows them.
pub(super) fn resources(resources: &NodeResources) {
    println!("   Capacity:");
    for (name, (capacity, _)) in resources {
        println!("     {:<26}{capacity}", format!("{name}:"));
    }
    println!("   Allocatable:");
    for (name, (_, allocatable)) in resources {
        println!("     {:<26}{allocatable}", format!("{name}:"));
    }
}

/// Who sits on which card.
pub(super) fn cards(given: &[(String, Plan)]) {
    println!("   {:<8} {:<10} what it has", "card", "pod");
    let mut rows: Vec<(&Grant, &str)> = given
        .iter()
        .flat_map(|(pod, plan)| plan.containers.iter().map(move |c| (pod, c)))
        .flat_map(|(pod, container)| container.grants.iter().map(move |g| (g, pod.as_str())))
        .collect();
    rows.sort_by(|a, b| a.0.card.cmp(&b.0.card).then(a.1.cmp(b.1)));
    for (grant, pod) in rows {
        println!(
            "   {:<8} {pod:<10} {}",
            grant.card.to_string(),
            what(&grant.mode)
        );
    }
}

fn what(mode: &GrantMode) -> String {
    match mode {
        GrantMode::Whole => "the whole card".into(),
        GrantMode::Share { core, memory } if *memory == MemoryBytes::ZERO => {
            format!("{core} of its core")
        }
        GrantMode::Share { core, memory } => format!("{core} of its core, {memory} of its memory"),
        GrantMode::Partition { profile, count } => format!("{count} x {profile}"),
    }
}

/// A few lines of the exposition, the rest counted.
pub(super) fn metrics(text: &str) {
    let interesting = [
        "accel_exporter_runtime_up",
        "accel_card_utilization_ratio",
        "accel_container_memory_used_bytes",
    ];
    for name in interesting {
        for line in text.lines().filter(|l| l.contains(name)).take(5) {
            println!("   {line}");
        }
    }
    let series = text
        .lines()
        .filter(|l| !l.starts_with('#') && !l.is_empty())
        .count();
    println!("   … {series} series in {} bytes", text.len());
}

/// Where everything can be looked at.
pub(super) fn addresses(stage: &Stage) {
    let layout = stage.layout();
    step("Everything goes on until Ctrl-C");
    line(&format!("metrics          {}", layout.metrics_url(0)));
    line(&format!(
        "Kubernetes API   kubectl --server {} get pods",
        layout.api_url()
    ));
    line(&format!(
        "why a pod waits  curl -s {}/explain/default/late-f",
        layout.extender_url()
    ));
    line(&format!(
        "Runtime's book   curl -s {}/book",
        layout.runtime_control_url(0)
    ));
    for part in ADMIN_PARTS {
        if let Some(url) = part.admin_url(layout) {
            line(&format!("{part}: {url}/readyz and {url}/metrics"));
        }
    }
    line(&format!(
        "logs             {}",
        layout.folder.join("logs").display()
    ));
}

/// The ends of all logs, for a demo that failed.
pub(super) fn logs(stage: &Stage) {
    for part in stage.parts() {
        let tail = stage.log_tail(part);
        if !tail.is_empty() {
            eprintln!("--- {part}\n{tail}");
        }
    }
}
