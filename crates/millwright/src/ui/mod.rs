//! The web view: pools as a picture that moves, drains, cloud calls, and what was decided and why.
//!
//! One page, compiled in, that is drawn from the caches of this process: looking costs the API servers nothing. It is fed by Server-Sent Events, each with
//! what has changed since the one before, so that a thousand machines cost a few hundred bytes a second. A click asks for an explanation, which
//! the crate `operator` computes as for `millwright explain`.
//!
//! It only shows, and it shows names, phases and reasons; no object is sent. The page itself holds nothing and is given to anyone; what it asks for is given
//! to whoever [`Access`] lets in.
//!
//! | file | idea |
//! | --- | --- |
//! | `access` | who may look |
//! | `assets` | the page |
//! | `events` | what has changed, as a stream |
//! | `server` | connections and requests |
//! | `sight` | what the process sees, as `operator` wants it |
//! | `timeline` | the last decisions |
//! | `tls` | the certificate, where others than this host may look |

mod access;
mod assets;
mod events;
mod server;
mod sight;
mod timeline;
mod tls;

#[cfg(all(test, feature = "dev"))]
mod tests;

use std::sync::Arc;

use controllers::Cluster;
use runtime::Clock;
use runtime::lease::Leadership;

pub(crate) use access::{Access, Reviews};
pub(crate) use server::serve;
#[cfg(feature = "dev")]
pub(crate) use sight::picture;
pub(crate) use timeline::Timeline;
pub(crate) use tls::acceptor;

/// What is shown.
#[derive(Clone)]
pub(crate) struct View {
    /// The controllers.
    pub(crate) cluster: Arc<Cluster>,
    /// What they have decided.
    pub(crate) timeline: Timeline,
    /// Whether this process acts.
    pub(crate) leadership: Leadership,
    /// The time.
    pub(crate) clock: Clock,
}
