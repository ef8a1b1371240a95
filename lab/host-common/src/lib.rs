//! What drivers of machines on one host share.
//!
//! Nothing is remembered in a process. What is known of a machine is what the kernel shows and what lies in its directory: [`state`] says where that
//! is and who may change it, [`files`] how files come to be whole, [`identity`] how machines are named, [`process`] which process is a machine's.
//! [`budget`] says whether there is room for another one, [`fields`] reads what classes of these drivers have in common, [`tools`] runs programs,
//! [`requests`] says what a call is about.

pub mod budget;
pub mod error;
pub mod fields;
pub mod files;
pub mod identity;
pub mod process;
pub mod requests;
pub mod state;
pub mod tools;

pub use error::HostError;
pub use state::Scope;
