//! Generates the Rust side of the driver protocol anew: `cargo run --package driver-remote --example generate`. Run it after the
//! proto was changed and before the code is, because it is built with the code.

#[path = "../generated/generator.rs"]
mod generator;

fn main() -> std::io::Result<()> {
    generator::generate(&generator::home())?;
    tracing::debug!(file = generator::FILE, "generated");
    Ok(())
}
