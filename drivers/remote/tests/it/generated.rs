//! The committed code equals the generated code.

#[path = "../../generated/generator.rs"]
mod generator;

/// Shows REM-9.
#[test]
fn generated_code_matches_the_proto() {
    let fresh = tempfile::tempdir().unwrap();
    generator::generate(fresh.path()).unwrap();
    let read = |folder: &std::path::Path| std::fs::read_to_string(folder.join(generator::FILE)).unwrap();
    assert!(
        read(fresh.path()) == read(&generator::home()),
        "run `cargo run --package driver-remote --example generate` and commit the result"
    );
}
