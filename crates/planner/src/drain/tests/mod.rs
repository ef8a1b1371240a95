//! Drains as scenarios and promises, in a cluster small enough to hold in one hand.

mod attachments;
mod cluster;
mod forced;
mod gentle;
mod promises;
mod volumes;
