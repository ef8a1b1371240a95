//! Shared by the suites for clouds: a control plane with the programs, kubelets for servers without an operating
//! system, a pool whose servers are counted after every step, and kills at every request.

pub(super) mod kill_table;
pub(super) mod kubelets;
pub(super) mod pool;
pub(super) mod setting;
