//! What the suites about clouds share: a control plane with our programs around it, and kubelets for servers that have no operating system.

pub(super) mod kubelets;
pub(super) mod setting;
