//! What a driver said, made fit to be written down and told.
//!
//! One order, and it matters: secrets are taken out first, of the text as it was said, because a secret that is escaped or cut in two
//! would not be recognized any more. Then the text is made printable ([`driver::text`]). Names are not repaired but left out, and a
//! sentence says so. A note that is too long is not kept: half a note would mislead the driver that reads it.

use api::NodeAddress;
use driver::text::{
    LONGEST_TEXT, is_deceptive, machine_name_problem, node_name_problem, printable, printable_beginning,
    provider_id_problem,
};
use driver::{Code, DriverError, Found, Owners};
use planner::scrub::Scrubber;

/// How much of a text is looked at; no more than a part of it is kept.
const LOOKED_AT: usize = 4 * LONGEST_TEXT;

/// No VM has more addresses.
const MOST_ADDRESSES: usize = 64;

/// A text without secrets, on one line and of bounded length.
pub(super) fn text(said: &str, scrubber: &Scrubber) -> String {
    let head = scrubber.scrub_beginning(said, LOOKED_AT);
    if said.len() <= LOOKED_AT { printable(&head) } else { printable_beginning(&head, said.len()) }
}

/// The same error without anything secret, and with texts that can be shown.
pub(super) fn error(error: &DriverError, scrubber: &Scrubber) -> DriverError {
    let mut cause = std::error::Error::source(error);
    while let Some(why) = cause {
        tracing::debug!(code = %error.code(), cause = text(&why.to_string(), scrubber), "why a driver call failed");
        cause = why.source();
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

/// What a driver noted for its next call. It is written into the Machine's status, where no secret may be; otherwise it is kept to
/// the letter, as long as it is text of bounded length on one line.
pub(super) fn note(state: Option<&str>, scrubber: &Scrubber) -> Option<String> {
    let state = state?;
    if state.len() > LONGEST_TEXT {
        tracing::warn!(bytes = state.len(), "what a driver wants to be shown again is too long, so it is not kept");
        return None;
    }
    Some(text(state, scrubber))
}

/// A VM with what can be used of it, and what cannot as a sentence.
pub(super) fn usable(found: Found) -> (Found, Option<String>) {
    let Found { provider_id, node_name, addresses } = found;
    let id = provider_id_problem(provider_id.as_str());
    let name = node_name_problem(node_name.as_str());
    let sentence = |what: &str, said: &str, problem: &str| {
        let said = said.get(..said.floor_char_boundary(256)).unwrap_or_default();
        format!("the driver answered with a {what} that {problem}: {:?}", printable(said))
    };
    let unusable = match (id, name) {
        (Some(problem), _) => Some(sentence("provider id", provider_id.as_str(), problem)),
        (None, Some(problem)) => Some(sentence("node name", node_name.as_str(), problem)),
        (None, None) => None,
    };
    let found = Found {
        provider_id: if id.is_none() { provider_id } else { "".into() },
        node_name: if name.is_none() { node_name } else { "".into() },
        addresses: usable_addresses(addresses),
    };
    (found, unusable)
}

/// Those of the addresses that can be written down.
pub(super) fn usable_addresses(addresses: Vec<NodeAddress>) -> Vec<NodeAddress> {
    let short = |text: &str| text.len() <= 253 && !text.chars().any(is_deceptive);
    let usable = addresses.into_iter().filter(|address| short(&address.kind) && short(&address.address));
    usable.take(MOST_ADDRESSES).collect()
}

/// A list whose names can all be used. One that cannot is refused whole: a VM whose machine has no name that a Machine could have
/// would be taken for nobody's.
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
    fn a_secret_is_taken_out_before_a_text_is_escaped_and_cut() {
        let scrubber = Scrubber::of(&SecretData::from_iter([("key", "line one\nline two")]));
        assert_eq!(text("bad line one\nline two\n", &scrubber), "bad ***\\n");
        let long = format!("{} line one\nline two", "x".repeat(LONGEST_TEXT - 60));
        assert!(!text(&long, &scrubber).contains("line"), "{}", text(&long, &scrubber));
    }

    /// Shows LIM-15.
    #[test]
    fn what_can_be_used_of_a_vm_is_kept_and_the_rest_is_told() {
        let address = |text: &str| NodeAddress { kind: "InternalIP".into(), address: text.into() };
        let said = Found {
            provider_id: "virtual:///vm-1".into(),
            node_name: "n".repeat(64).into(),
            addresses: vec![address("10.0.0.1"), address("10.0.0.\u{1b}[31m")],
        };
        let (found, why) = usable(said);
        assert_eq!((found.provider_id.as_str(), found.node_name.as_str()), ("virtual:///vm-1", ""));
        assert_eq!(found.addresses, [address("10.0.0.1")]);
        assert!(why.unwrap().starts_with("the driver answered with a node name that is longer than 63 characters"));
    }

    /// Shows LIM-16.
    #[test]
    fn a_list_with_a_name_that_no_machine_can_have_is_refused_whole() {
        let good = Owners::from([("id-1".into(), "m-1".into())]);
        assert_eq!(owners(good.clone()).unwrap(), good);
        for bad in [("id-2".into(), "m\n2".into()), ("id\u{1b}".into(), "m-2".into()), ("id-3".into(), "".into())] {
            let mut list = good.clone();
            list.extend([bad]);
            assert_eq!(owners(list).unwrap_err().code(), Code::Internal);
        }
    }
}
