//! Regenerates the Rust code of the driver protocol: `cargo run --package driver-remote --example generate`. Run it
//! after a change of the proto and before the code that uses it, because the example is built with that code.

#[path = "../generated/generator.rs"]
mod generator;

fn main() -> std::io::Result<()> {
    generator::generate(&generator::home())?;
    tracing::debug!(file = generator::FILE, "generated");
    Ok(())
}
