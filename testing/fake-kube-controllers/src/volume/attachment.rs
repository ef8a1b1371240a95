//! Decides where a volume is attached and detached.
//!
//! A volume that only one node may write to is attached to the next node only after it is detached from the last: two
//! nodes would destroy the file system. It is detached when no pod on the node uses it *and* the node has released it.
//! A lost node cannot report that, so detaching waits six minutes, unless the node is marked out of service.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::time::later;

/// A volume and its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ObservedVolume {
    pub(super) sharing: Sharing,
    /// The nodes with a pod that uses it.
    pub(super) wanted: BTreeSet<String>,
    /// Its attachments by node.
    pub(super) attachments: BTreeMap<String, Progress>,
    /// What each of these nodes says of it.
    pub(super) nodes: BTreeMap<String, Said>,
    /// Since when no pod on the node has used it.
    pub(super) unwanted_since: BTreeMap<String, Timestamp>,
}

/// The number of nodes that may have it attached concurrently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sharing {
    #[default]
    One,
    Many,
}

/// How far an attachment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Asked for.
    Wanted,
    /// Done.
    Attached,
    /// Being undone.
    Leaving,
}

/// What a node says of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) listing: Listing,
    pub(super) grip: Grip,
    pub(super) state: State,
}

/// Whether the node's status lists the volume as attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    Listed,
    Unlisted,
}

/// Whether the kubelet still uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grip {
    InUse,
    LetGo,
}

/// How the node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Well,
    /// Not ready, unreachable or gone.
    Lost,
    /// The node is marked out of service.
    OutOfService,
}

/// What to do for a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// Take it off the node's list.
    Unlist(String),
    /// Ask for it to be detached.
    Detach(String),
    /// Ask for it to be attached.
    Attach(String),
    /// Put it on the node's list.
    List(String),
}

/// What to do now, and when to look again at the latest.
pub(super) fn decide(seen: &ObservedVolume, patience: Duration, now: Timestamp) -> (Vec<Step>, Option<Timestamp>) {
    let mut steps = Vec::new();
    let mut look_again: Option<Timestamp> = None;
    for (node, progress) in seen.attachments.iter().filter(|(node, _)| !seen.wanted.contains(*node)) {
        let said = seen.nodes.get(node);
        let held = said.filter(|said| said.grip == Grip::InUse);
        let until = match held.map(|said| said.state) {
            None | Some(State::OutOfService) => None,
            Some(State::Well) => continue,
            Some(State::Lost) => seen.unwanted_since.get(node).map(|since| later(*since, patience)),
        };
        if let Some(until) = until.filter(|until| *until > now) {
            look_again = Some(look_again.map_or(until, |sooner| sooner.min(until)));
            continue;
        }
        if said.is_some_and(|said| said.listing == Listing::Listed) {
            steps.push(Step::Unlist(node.clone()));
        }
        if *progress != Progress::Leaving {
            steps.push(Step::Detach(node.clone()));
        }
    }
    let mut taken = seen.sharing == Sharing::One && !seen.attachments.is_empty();
    for node in &seen.wanted {
        match seen.attachments.get(node) {
            None if !taken => {
                steps.push(Step::Attach(node.clone()));
                taken = seen.sharing == Sharing::One;
            }
            Some(Progress::Attached) if seen.nodes.get(node).is_some_and(|said| said.listing == Listing::Unlisted) => {
                steps.push(Step::List(node.clone()));
            }
            None | Some(Progress::Wanted | Progress::Attached | Progress::Leaving) => {}
        }
    }
    (steps, look_again)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    const PATIENCE: Duration = Duration::from_mins(6);

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn well(listing: Listing, grip: Grip) -> Said {
        Said { listing, grip, state: State::Well }
    }

    fn seen(wanted: &[&str], attachments: &[(&str, Progress)], nodes: &[(&str, Said)]) -> ObservedVolume {
        ObservedVolume {
            wanted: wanted.iter().map(|node| (*node).to_owned()).collect(),
            attachments: attachments.iter().map(|(node, progress)| ((*node).to_owned(), *progress)).collect(),
            nodes: nodes.iter().map(|(node, said)| ((*node).to_owned(), *said)).collect(),
            unwanted_since: attachments.iter().map(|(node, _)| ((*node).to_owned(), at(0))).collect(),
            sharing: Sharing::One,
        }
    }

    #[rstest]
    #[case(seen(&["a"], &[], &[]), vec![Step::Attach("a".into())])]
    #[case(seen(&["a"], &[("a", Progress::Wanted)], &[]), vec![])]
    #[case(seen(&["a"], &[("a", Progress::Attached)], &[("a", well(Listing::Unlisted, Grip::InUse))]), vec![Step::List("a".into())])]
    #[case(seen(&["a"], &[("a", Progress::Attached)], &[("a", well(Listing::Listed, Grip::InUse))]), vec![])]
    #[case(seen(&["b"], &[("a", Progress::Attached)], &[("a", well(Listing::Listed, Grip::InUse))]), vec![])]
    #[case(
        seen(&["b"], &[("a", Progress::Attached)], &[("a", well(Listing::Listed, Grip::LetGo))]),
        vec![Step::Unlist("a".into()), Step::Detach("a".into())]
    )]
    #[case(seen(&["b"], &[("a", Progress::Leaving)], &[("a", well(Listing::Unlisted, Grip::LetGo))]), vec![])]
    #[case(seen(&["a"], &[("a", Progress::Leaving)], &[]), vec![])]
    #[case(seen(&[], &[("gone", Progress::Attached)], &[]), vec![Step::Detach("gone".into())])]
    #[case(seen(&["a", "b"], &[], &[]), vec![Step::Attach("a".into())])]
    fn a_volume_goes_from_node_to_node(#[case] seen: ObservedVolume, #[case] expected: Vec<Step>) {
        assert_eq!(decide(&seen, PATIENCE, at(1)).0, expected);
    }

    #[test]
    fn a_lost_node_is_waited_for_and_one_that_is_off_is_not() {
        let holding = |state| Said { listing: Listing::Unlisted, grip: Grip::InUse, state };
        let lost = seen(&["b"], &[("a", Progress::Attached)], &[("a", holding(State::Lost))]);
        assert_eq!(decide(&lost, PATIENCE, at(5)), (vec![], Some(at(6))));
        assert_eq!(decide(&lost, PATIENCE, at(6)), (vec![Step::Detach("a".into())], None));
        let off = seen(&["b"], &[("a", Progress::Attached)], &[("a", holding(State::OutOfService))]);
        assert_eq!(decide(&off, PATIENCE, at(0)).0, [Step::Detach("a".into())]);
    }

    #[test]
    fn a_shared_volume_is_attached_wherever_it_is_wanted() {
        let shared = ObservedVolume { sharing: Sharing::Many, ..seen(&["a", "b"], &[("c", Progress::Leaving)], &[]) };
        assert_eq!(decide(&shared, PATIENCE, at(0)).0, [Step::Attach("a".into()), Step::Attach("b".into())]);
    }

    proptest! {
        /// Shows STN-5.
        #[test]
        fn a_volume_for_one_node_never_gets_a_second_attachment(
            wanted in prop::collection::btree_set("[abc]", 0..3),
            attached in prop::collection::btree_map("[abc]", prop_oneof![Just(Progress::Wanted), Just(Progress::Attached), Just(Progress::Leaving)], 0..3),
        ) {
            let seen = ObservedVolume { wanted, attachments: attached, ..ObservedVolume::default() };
            let (steps, _) = decide(&seen, PATIENCE, at(0));
            let new = steps.iter().filter(|step| matches!(step, Step::Attach(_))).count();
            prop_assert!(new + seen.attachments.len() <= seen.attachments.len().max(1));
        }
    }
}
