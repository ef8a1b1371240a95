//! Runs the driver programs as a kubelet starts them.

#![allow(clippy::unwrap_used, reason = "a test may panic on an unexpected result")]

mod aws;
mod openstack;
