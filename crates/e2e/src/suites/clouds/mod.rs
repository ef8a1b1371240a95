//! What the suites about clouds share: a control plane with our programs around it, kubelets for servers that have no operating system, and kills at every call.

pub(super) mod kill_table;
pub(super) mod kubelets;
pub(super) mod setting;
