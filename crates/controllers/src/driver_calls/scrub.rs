//! Scrubs what a driver returned, before it is written or logged.
//!
//! The order matters. Secrets are removed first, from the original text: a secret that was escaped or cut in two would
//! not be recognized. Then the text is made printable ([`driver::text`]). Invalid names are not repaired but dropped,
//! and a message reports it. A note that is too long is dropped: half a note would mislead the driver.

use api::NodeAddress;
use driver::text::{
    LONGEST_TEXT, is_deceptive, machine_name_problem, node_name_problem, printable, printable_beginning,
    provider_id_problem,
};
use driver::{Code, DriverError, Found, Owners};
use planner::scrub::Scrubber;

/// How much of a text is read; at most a part of it is kept.
const READ_AT_MOST: usize = 4 * LONGEST_TEXT;

/// Maximum number of addresses of a VM.
const MAX_ADDRESSES: usize = 64;

/// Returns the text without secrets, on one line and of bounded length.
pub(super) fn text(original: &str, scrubber: &Scrubber) -> String {
    let head = scrubber.scrub_beginning(original, READ_AT_MOST);
    if original.len() <= READ_AT_MOST { printable(&head) } else { printable_beginning(&head, original.len()) }
}

/// Returns the error without secrets, with printable texts. Logs its causes.
pub(super) fn error(error: &DriverError, scrubber: &Scrubber) -> DriverError {
    if let Some(cause) = std::error::Error::source(error) {
        let cause = text(&meta::error_chain(cause), scrubber);
        tracing::debug!(code = %error.code(), cause, "driver call failed");
    }
    let mut clean = DriverError::new(error.code(), text(error.message(), scrubber));
    if let Some(state) = note(error.last_known_state(), scrubber) {
        clean = clean.with_last_known_state(state);
    }
    match error.found() {
        Some(found) => clean.with_found(found.clone()),
        None => clean,
    }
}

/// Scrubs the note of a driver for its next call (`lastKnownState`). The note is written to the status of the Machine,
/// which must contain no secret. Otherwise it is kept unchanged if it is a text of bounded length on one line.
pub(super) fn note(state: Option<&str>, scrubber: &Scrubber) -> Option<String> {
    let state = state?;
    if state.len() > LONGEST_TEXT {
        tracing::warn!(
            bytes = state.len(),
            limit = LONGEST_TEXT,
            "dropped lastKnownState of the driver; it is too long"
        );
        return None;
    }
    Some(text(state, scrubber))
}

/// Returns the VM without invalid names and addresses, and a message about what was dropped.
pub(super) fn usable(found: Found) -> (Found, Option<String>) {
    let Found { provider_id, node_name, addresses } = found;
    let id = provider_id_problem(provider_id.as_str());
    let name = node_name_problem(node_name.as_str());
    let message = |what: &str, value: &str, problem: &str| {
        let value = value.get(..value.floor_char_boundary(256)).unwrap_or_default();
        format!("the driver returned a {what} that {problem}: {:?}", printable(value))
    };
    let unusable = match (id, name) {
        (Some(problem), _) => Some(message("provider id", provider_id.as_str(), problem)),
        (None, Some(problem)) => Some(message("node name", node_name.as_str(), problem)),
        (None, None) => None,
    };
    let found = Found {
        provider_id: if id.is_none() { provider_id } else { "".into() },
        node_name: if name.is_none() { node_name } else { "".into() },
        addresses: usable_addresses(addresses),
    };
    (found, unusable)
}

/// Returns the valid addresses.
pub(super) fn usable_addresses(addresses: Vec<NodeAddress>) -> Vec<NodeAddress> {
    let short = |text: &str| text.len() <= 253 && !text.chars().any(is_deceptive);
    let usable = addresses.into_iter().filter(|address| short(&address.kind) && short(&address.address));
    usable.take(MAX_ADDRESSES).collect()
}

/// Rejects a list with an invalid name as a whole: a VM whose name no Machine can have would be treated as an orphan.
pub(super) fn owners(owners: Owners) -> Result<Owners, DriverError> {
    let problem = owners.iter().find_map(|(id, machine)| {
        let id = provider_id_problem(id.as_str()).map(|problem| format!("a provider id that {problem}"));
        id.or_else(|| machine_name_problem(machine.as_str()).map(|problem| format!("a machine name that {problem}")))
    });
    match problem {
        Some(problem) => Err(DriverError::new(Code::Internal, format!("the driver listed a VM with {problem}"))),
        None => Ok(owners),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::SecretData;

    /// Shows LIM-16.
    #[test]
    fn text_removes_secrets_before_it_escapes_and_cuts() {
        let scrubber = Scrubber::of(&SecretData::from_iter([("key", "line one\nline two")]));
        assert_eq!(text("bad line one\nline two\n", &scrubber), "bad ***\\n");
        let long = format!("{} line one\nline two", "x".repeat(LONGEST_TEXT - 60));
        assert!(!text(&long, &scrubber).contains("line"), "{}", text(&long, &scrubber));
    }

    /// Shows LIM-15.
    #[test]
    fn usable_drops_invalid_names_and_reports_them() {
        let address = |text: &str| NodeAddress { kind: "InternalIP".into(), address: text.into() };
        let returned = Found {
            provider_id: "virtual:///vm-1".into(),
            node_name: "n".repeat(64).into(),
            addresses: vec![address("10.0.0.1"), address("10.0.0.\u{1b}[31m")],
        };
        let (found, message) = usable(returned);
        assert_eq!((found.provider_id.as_str(), found.node_name.as_str()), ("virtual:///vm-1", ""));
        assert_eq!(found.addresses, [address("10.0.0.1")]);
        assert!(message.unwrap().starts_with("the driver returned a node name that is longer than 63 characters"));
    }

    /// Shows LIM-16.
    #[test]
    fn owners_rejects_a_list_with_an_invalid_machine_name() {
        let good = Owners::from([("id-1".into(), "m-1".into())]);
        assert_eq!(owners(good.clone()).unwrap(), good);
        for bad in [("id-2".into(), "m\n2".into()), ("id\u{1b}".into(), "m-2".into()), ("id-3".into(), "".into())] {
            let mut list = good.clone();
            list.extend([bad]);
            assert_eq!(owners(list).unwrap_err().code(), Code::Internal);
        }
    }
}
