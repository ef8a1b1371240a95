//! The conversations that every server is held to. Each was chosen because the two servers once differed in it, or because it
//! says something that no other does.

use futures::future::BoxFuture;

use super::Conversation;
use crate::fixture::Fixture;
use crate::{Case, CaseResult, Difference};

/// Makes cases of the seeds whose conversations are in `recorded/`, and of each one a test on the server in memory.
macro_rules! recorded {
    ($($name:ident = $file:literal),* $(,)?) => {
        pub(crate) fn cases() -> Vec<Case> {
            vec![$(Case { name: stringify!($name), run: |fixture| repeat(fixture, include_str!(concat!("../../recorded/", $file))) }),*]
        }

        #[cfg(test)]
        mod in_memory {
            $(
                #[tokio::test(start_paused = true)]
                async fn $name() {
                    let case = super::cases().into_iter().find(|case| case.name == stringify!($name)).unwrap();
                    let server_under_test = crate::ServerUnderTest::in_memory();
                    server_under_test.keeping_house(case.hold(&server_under_test)).await.unwrap();
                }
            )*
        }
    };
}

recorded![
    seed_1 = "seed-1.json",
    seed_2 = "seed-2.json",
    seed_3 = "seed-3.json",
    seed_4 = "seed-4.json",
    seed_6 = "seed-6.json",
    seed_9 = "seed-9.json",
    seed_12 = "seed-12.json",
    seed_14 = "seed-14.json",
    seed_15 = "seed-15.json",
    seed_17 = "seed-17.json",
    seed_18 = "seed-18.json",
    seed_19 = "seed-19.json",
    seed_20 = "seed-20.json",
    seed_21 = "seed-21.json",
    seed_25 = "seed-25.json",
    seed_27 = "seed-27.json",
    seed_32 = "seed-32.json",
    seed_33 = "seed-33.json",
    seed_40 = "seed-40.json",
    seed_44 = "seed-44.json",
    seed_46 = "seed-46.json",
    seed_49 = "seed-49.json",
    seed_52 = "seed-52.json",
    seed_60 = "seed-60.json",
];

fn repeat(fixture: Fixture, recorded: &'static str) -> BoxFuture<'static, CaseResult> {
    Box::pin(async move {
        let conversation: Conversation = serde_json::from_str(recorded)
            .map_err(|error| Difference::new(format!("the recording cannot be read: {error}")))?;
        conversation.repeat(&fixture).await
    })
}
