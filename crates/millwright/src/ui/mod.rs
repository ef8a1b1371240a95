//! The web view: pools, drains, cloud calls, and every decision with its reason.
//!
//! It is one page, compiled in, and its data comes from the caches of this process: viewing it causes no load on the
//! API servers. Server-Sent Events carry the changes since the previous event, so that a thousand Machines need a few
//! hundred bytes per second. A click requests an explanation, which the crate `inspect` computes as for `millwright
//! explain`.
//!
//! The web view is read-only. It shows names, phases and reasons; no object is sent. The page itself contains no data
//! and is public; [`Access`] controls access to the data.
//!
//! | file | content |
//! | --- | --- |
//! | `access` | access control |
//! | `assets` | the page |
//! | `events` | changes, as a stream |
//! | `server` | connections and requests |
//! | `snapshot` | the snapshot for the crate `inspect` |
//! | `timeline` | the last decisions |
//! | `tls` | TLS, for addresses other than loopback |

mod access;
mod assets;
mod events;
mod server;
mod snapshot;
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
pub(crate) use snapshot::picture;
pub(crate) use timeline::Timeline;
pub(crate) use tls::acceptor;

/// The data of the web view.
#[derive(Clone)]
pub(crate) struct View {
    /// The controllers.
    pub(crate) cluster: Arc<Cluster>,
    /// Their last decisions.
    pub(crate) timeline: Timeline,
    /// Whether this process leads.
    pub(crate) leadership: Leadership,
    /// Clock.
    pub(crate) clock: Clock,
}
