//! How a scenario went.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use serde::Serialize;

use crate::{Ground, Scenario, Stage};

/// A promise that was not kept, or a story that could not be told.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// What was promised did not happen.
    #[error("{0}")]
    Promise(String),
    /// The API server refused what the story needs.
    #[error("failed to {what}")]
    Api {
        /// What was attempted.
        what: String,
        /// Why it did not work.
        #[source]
        source: kube::Error,
    },
}

impl Broken {
    pub(crate) fn api(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |source| Self::Api { what, source }
    }
}

/// Fails with a sentence unless the promise was kept.
pub(crate) fn promise(kept: bool, sentence: impl FnOnce() -> String) -> Result<(), Broken> {
    if kept { Ok(()) } else { Err(Broken::Promise(sentence())) }
}

/// How one scenario went.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Its name.
    pub name: &'static str,
    /// Why it failed, if it did.
    pub broken: Option<String>,
}

/// Plays one scenario on a stage of its own.
pub async fn play(scenario: &Scenario, ground: &Ground) -> Verdict {
    let story = async {
        let stage = Stage::set(ground, scenario.name).await?;
        let outcome = (scenario.play)(&stage).await;
        stage.clear().await;
        outcome
    };
    let broken = match AssertUnwindSafe(story).catch_unwind().await {
        Ok(Ok(())) => None,
        Ok(Err(broken)) => Some(full(&broken)),
        Err(_) => Some("it panicked".to_owned()),
    };
    Verdict { name: scenario.name, broken }
}

fn full(broken: &Broken) -> String {
    match std::error::Error::source(broken) {
        Some(source) => format!("{broken}: {source}"),
        None => broken.to_string(),
    }
}
