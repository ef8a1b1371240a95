//! What drivers are tested with. Nothing of this is ever part of a program that runs in production.
//!
//! - [`moto`] is an EC2 that we did not write, so it cannot share our misunderstandings. It runs as a process on loopback.
//! - [`ec2`] is a small EC2 of our own for what moto cannot show: capacity that is used up, effects that show late, tokens that make a
//!   create idempotent. It is held to moto for the calls that both know.
//! - [`model`] is what AWS itself says of its messages: which parameters exist, of which shape, and what an answer may hold.
//! - [`openstack`] is a small OpenStack of our own: Keystone, Nova, Neutron, Glance and Cinder.
//! - [`one_host`] is what drivers of machines on this host have in common: a state directory, the contract, and a driver that is killed.
//! - [`log`] is what a process logs, to look for secrets in it.
//! - [`proxy`] stands between a driver and any of them and loses what is sent, or what comes back.

pub mod ec2;
pub mod exchange;
pub mod log;
mod loopback;
pub mod model;
pub mod moto;
pub mod one_host;
pub mod openstack;
pub mod parameters;
pub mod proxy;
