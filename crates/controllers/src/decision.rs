//! What was decided, for whoever listens: the log, the demo, a test.

use std::fmt;
use std::sync::Arc;

use plan::Wake;
use runtime::Key;

/// One pass over one object.
#[derive(Clone, Debug)]
pub struct Decision {
    /// What kind of object it is about.
    pub about: Subject,
    /// Which one.
    pub key: Key,
    /// What was done, in words; empty when there was nothing to do.
    pub did: Vec<String>,
    /// Why.
    pub because: String,
    /// What is waited for, in words.
    pub awaits: String,
}

/// Told of every decision that did something. It must not block.
pub type Listener = Arc<dyn Fn(&Decision) + Send + Sync>;

/// What a decision is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A Machine.
    Machine,
    /// A MachineSet.
    Set,
    /// A MachineDeployment.
    Deployment,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Machine => "machine",
            Self::Set => "machine set",
            Self::Deployment => "machine deployment",
        })
    }
}

impl Decision {
    /// A plan in words.
    pub fn of<S: fmt::Display>(
        about: Subject,
        key: &Key,
        steps: &[S],
        because: &impl fmt::Display,
        wake: Wake,
    ) -> Self {
        let awaits = match wake {
            Wake::Again => String::new(),
            Wake::On(awaited) => awaited.to_string(),
            Wake::By { awaited, at } => format!("{awaited}, until {at} at the latest"),
        };
        Self {
            about,
            key: key.clone(),
            did: steps.iter().map(ToString::to_string).collect(),
            because: because.to_string(),
            awaits,
        }
    }

    /// Writes it down, and tells whoever listens if something was done.
    pub fn tell(&self, listener: Option<&Listener>) {
        let Self { about, key, did, because, awaits } = self;
        if did.is_empty() {
            tracing::debug!(%about, %key, %because, %awaits, "nothing to do");
            return;
        }
        tracing::info!(%about, %key, did = %did.join(", "), %because, %awaits, "decided");
        if let Some(listener) = listener {
            listener(self);
        }
    }
}
