//! Writes the committed gRPC code from the `.proto` files: `cargo run -p proto-gen`.
//!
//! With `--check` it writes nothing and fails when what is committed differs from
//! what the `.proto` files give. Needs no `protoc`: protox compiles them.
//!
//! With `--baseline` it writes only the baseline that the contract with the Runtime is compared
//! with from then on: at a release that adds to the contract, never to silence that comparison.

use std::{fs, path::Path};

use anyhow::{Context, bail};

/// One set of `.proto` files and the folder its Rust code goes to, from the workspace root.
const CONTRACTS: [(&str, &[&str], &str); 4] = [
    (
        "runtime-proto/proto",
        &["runtimekit/runtime/v1/runtime.proto"],
        "runtime-proto/src/generated",
    ),
    (
        "kubernetes/proto",
        &["deviceplugin/v1beta1/deviceplugin.proto"],
        "kubernetes/src/generated",
    ),
    (
        "kubernetes/proto",
        &["podresources/v1/podresources.proto"],
        "kubernetes/src/generated",
    ),
    (
        "kubernetes/proto",
        &["pluginregistration/v1/pluginregistration.proto"],
        "kubernetes/src/generated",
    ),
];

/// The released contract with the Runtime, as a `FileDescriptorSet`.
const BASELINE: &str = "runtime-proto/baseline/v1.binpb";

fn main() -> anyhow::Result<()> {
    let check = std::env::args().any(|a| a == "--check");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("no workspace root")?;
    if std::env::args().any(|a| a == "--baseline") {
        return write_baseline(root);
    }
    let scratch = std::env::temp_dir().join(format!("proto-gen-{}", std::process::id()));
    fs::create_dir_all(&scratch)?;
    let outcome = generate(root, &scratch, check);
    fs::remove_dir_all(&scratch)?;
    outcome
}

fn write_baseline(root: &Path) -> anyhow::Result<()> {
    let [(include, files, _), ..] = CONTRACTS;
    let mut compiler = protox::Compiler::new([root.join(include)])?;
    compiler.include_source_info(false).open_files(files)?;
    let path = root.join(BASELINE);
    fs::create_dir_all(path.parent().context("no folder")?)?;
    fs::write(path, compiler.encode_file_descriptor_set())?;
    Ok(())
}

fn generate(root: &Path, scratch: &Path, check: bool) -> anyhow::Result<()> {
    for (include, files, target) in CONTRACTS {
        let include = root.join(include);
        let paths: Vec<_> = files.iter().map(|f| include.join(f)).collect();
        let descriptors =
            protox::compile(&paths, [&include]).context("the .proto files do not compile")?;
        tonic_prost_build::configure()
            .out_dir(scratch)
            .compile_fds(descriptors)?;
        for entry in fs::read_dir(scratch)? {
            let fresh = entry?.path();
            let name = fresh.file_name().context("no file name")?.to_owned();
            let committed = root.join(target).join(&name);
            let text = format!(
                "// Written by `cargo run -p proto-gen` from {}; do not edit.\n{}",
                files.join(", "),
                fs::read_to_string(&fresh)?
            );
            if check {
                if fs::read_to_string(&committed).unwrap_or_default() != text {
                    bail!(
                        "{} is not what the .proto files give: run `cargo run -p proto-gen`",
                        committed.display()
                    );
                }
            } else {
                fs::create_dir_all(root.join(target))?;
                fs::write(&committed, text)?;
            }
            fs::remove_file(&fresh)?;
        }
    }
    Ok(())
}
