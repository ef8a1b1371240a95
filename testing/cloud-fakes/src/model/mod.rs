//! What AWS says of its messages: which parameters a call has, of which shape, and what its answer may hold.
//!
//! AWS describes its services in files that its SDKs are made from, and botocore ships them. `model/*.json` are extracts of these
//! files with the facts about the actions that we call, written by `hack/service-model/extract.py`. A request with a misspelled
//! parameter is refused by AWS when it is too late; here it fails a test. A member that is misread is never there, which is worse:
//! nothing fails.

mod member;
mod request;
mod shapes;

pub use member::check_member;
pub use request::check_request;
pub use shapes::Problem;
