//! A small OpenStack of our own: Keystone, Nova, Neutron, Glance and Cinder, as far as a driver needs them.
//!
//! It does what a real one was seen to do (Keystone 22, Nova 26, Neutron 21, Cinder 21): the same name twice makes two servers, ports that were
//! made beforehand outlive their server, a quota that is used up is 403 in Nova, 409 in Neutron and 413 in Cinder, and "No valid host" comes
//! after the request was accepted.
//!
//! All services are below one address, told apart by the first part of the path; the catalogue names the host that Keystone was asked under, so
//! that a proxy in front of it is in front of everything. [`Cloud`] is data: time comes in, answers go out. [`Stack`] is the same on loopback.

mod answer;
mod cinder;
mod cloud;
mod glance;
mod keystone;
mod neutron;
mod nova;
mod request;
mod server;
mod settings;
mod things;

pub use answer::Answer;
pub use cloud::Cloud;
pub use request::Request;
pub use server::Stack;
pub use settings::{Names, Settings};
pub use things::{Port, Server, Volume};

#[cfg(test)]
mod tests;
