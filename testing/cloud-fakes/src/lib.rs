//! Fakes and helpers for driver tests. Production programs never contain this crate.
//!
//! - [`moto`] is a third-party EC2, which therefore does not share our misunderstandings. It runs as a process on loopback.
//! - [`ec2`] is a small fake EC2 for what moto does not simulate: exhausted capacity, delayed effects, client tokens. Calls
//!   that both support are compared with moto.
//! - [`model`] is AWS's own service model: the parameters, their types, and the members of responses.
//! - [`openstack`] is a small fake OpenStack: Keystone, Nova, Neutron, Glance and Cinder.
//! - [`one_host`] has the shared tests of drivers for machines on this host: a state directory, the contract, killed drivers.
//! - [`log`] captures the logs of a process, to search them for secrets.
//! - [`proxy`] is placed between a driver and a cloud and loses requests or responses.

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
