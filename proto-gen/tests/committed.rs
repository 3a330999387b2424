//! The committed gRPC code is what the `.proto` files give.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::process::Command;

#[test]
fn committed_code_is_what_the_proto_files_give() {
    let out = Command::new(env!("CARGO_BIN_EXE_proto-gen"))
        .arg("--check")
        .output()
        .expect("proto-gen runs");
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
}
