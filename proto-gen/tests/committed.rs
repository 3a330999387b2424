//! The committed gRPC code is what the `.proto` files give.

use std::process::Command;

#[test]
fn committed_code_is_what_the_proto_files_give() {
    let out = Command::new(env!("CARGO_BIN_EXE_proto-gen")).arg("--check").output().expect("proto-gen runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}
