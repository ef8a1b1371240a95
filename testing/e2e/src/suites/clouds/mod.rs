//! What the suites about clouds share: a control plane with our programs around it, kubelets for servers that have no operating system, a
//! pool whose servers are counted after every step, and kills at every call.

pub(super) mod kill_table;
pub(super) mod kubelets;
pub(super) mod pool;
pub(super) mod setting;
