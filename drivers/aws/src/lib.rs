//! Driver for AWS EC2.
//!
//! It handles MachineClasses with provider `AWS` as the reference's driver does: the same `providerSpec`, the same
//! Secret and the same provider ids. Pure functions build the requests and interpret the responses ([`launch`],
//! [`initialization`], [`codes`]). [`ec2`], [`create`] and [`provider`] send the requests.
//!
//! The driver uses EC2's Query protocol, signs with AWS's own crate and decodes XML (ADR 0068): seven actions do not
//! need an SDK.

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
