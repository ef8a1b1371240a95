//! What a Kubernetes API server does, as cases that any server can be held to.
//!
//! The in-memory server is trusted only as far as it behaves like the real one. A case is a sentence about that behaviour and
//! a function that holds a server to it through nothing but a `kube::Client`: no look behind the curtain, no clock, no
//! compaction, nothing that a real server would not let a client do. So the same list runs on both, and where they differ
//! ours is wrong.
//!
//! - `cargo test` holds the server in memory to each case, as a test of the same name, under tokio's paused clock.
//! - `cargo xtask conformance` holds a real one to them.
//!
//! Beside the cases that people wrote there are conversations ([`Conversation`]): requests that a seeded generator made up, with what a real
//! server answered.
//!
//! Every case has a namespace of its own, and custom kinds under a group of its own, so that cases can run side by side.
//!
//! The client must not retry on its own: some cases ask for refusals that an eager client would repeat for minutes.

#![allow(
    clippy::indexing_slicing,
    reason = "serde_json answers null for what is not there, which is what a case wants to compare with"
)]

mod connection;
mod conversation;
mod difference;
mod fixture;
mod report;
mod run;
mod server_under_test;
mod topics;

pub use conversation::Conversation;
pub use difference::{CaseResult, Difference};
pub use report::{Outcome, Report};
pub use run::{Case, Topic, run_all};
pub use server_under_test::ServerUnderTest;
pub use topics::topics;

/// Ends a case with a difference unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::Difference::new(format!($($message)+)));
        }
    };
}
use ensure;

/// Makes cases of functions, and of each one a test on the server in memory. The name of the function is the sentence.
macro_rules! cases {
    ($($case:ident),+ $(,)?) => {
        pub(super) fn cases() -> Vec<$crate::Case> {
            vec![$($crate::Case { name: stringify!($case), run: |fixture| Box::pin($case(fixture)) }),+]
        }

        #[cfg(test)]
        mod in_memory {
            $(
                #[tokio::test(start_paused = true)]
                async fn $case() {
                    let case = super::cases().into_iter().find(|case| case.name == stringify!($case)).unwrap();
                    let server_under_test = $crate::ServerUnderTest::in_memory();
                    server_under_test.keeping_house(case.hold(&server_under_test)).await.unwrap();
                }
            )+
        }
    };
}
use cases;
