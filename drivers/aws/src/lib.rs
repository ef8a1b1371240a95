//! EC2 as a cloud of Millwright.
//!
//! Classes of provider `AWS` are served as the reference's driver serves them: the same `providerSpec`, the same Secret, the same
//! provider ids. What is sent and what an answer means is decided in pure functions ([`launch`], [`initialization`],
//! [`codes`]); what asks is thin ([`ec2`], [`create`], [`provider`]).
//!
//! Requests are those of EC2's Query protocol, signed by AWS' own crate and read as XML (ADR 0068): seven actions do not need an SDK.

mod answer;
mod codes;
mod create;
mod credentials;
mod ec2;
mod endpoint;
mod find;
mod identity;
mod initialization;
mod launch;
mod provider;
mod query;
mod secret;
mod settings;
mod sign;
mod spec;
mod volumes;
mod xml;

pub use endpoint::Endpoints;
pub use provider::AwsDriver;
pub use secret::Ambient;
pub use settings::Settings;
pub use spec::PROVIDER;

#[cfg(test)]
mod testing;
