//! A breadth-first search through all states of a model.
//!
//! A state is stored as a fingerprint of 64 bits, so that millions of states fit into memory. If two states had the
//! same fingerprint, the successors of one would not be searched. With ten million states this happens in one of three
//! hundred thousand runs.

mod convergence;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

pub use convergence::{ConvergenceCheck, Settles};

/// A model that can be searched.
pub trait Model {
    /// Everything on which the successors depend.
    type State: Clone + Hash;
    /// A step from one state to the next.
    type Action: Clone + fmt::Display;

    /// Returns the initial state.
    fn initial(&self) -> Self::State;

    /// Returns all possible next steps.
    fn actions(&self, state: &Self::State) -> Vec<Self::Action>;

    /// Returns the state after a step, or what is wrong with the step.
    fn next(&self, state: &Self::State, action: &Self::Action) -> Result<Self::State, String>;

    /// Checks a state.
    fn check(&self, state: &Self::State) -> Result<(), String>;
}

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explored {
    /// Number of distinct states.
    pub states: usize,
    /// Number of steps between them.
    pub transitions: usize,
    /// Largest distance of a state from the initial state.
    pub depth: usize,
    /// Whether all states were visited. Otherwise the limit was reached.
    pub complete: bool,
}

/// The shortest history that ends in a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The steps.
    pub history: Vec<String>,
    /// The violation.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, action) in self.history.iter().enumerate() {
            writeln!(f, "{:>3}. {action}", n + 1)?;
        }
        write!(f, "     {}", self.message)
    }
}

/// The predecessor and the step with which a state was reached first.
struct Origin<A> {
    from: u64,
    action: A,
}

/// Visits up to `limit` states of a model, nearest first.
pub fn search<M: Model>(model: &M, limit: usize) -> Result<Explored, Violation> {
    let initial = model.initial();
    let mut origins: HashMap<u64, Option<Origin<M::Action>>> = HashMap::from([(fingerprint(&initial), None)]);
    let mut frontier = VecDeque::from([(initial, 0)]);
    let mut explored = Explored { states: 0, transitions: 0, depth: 0, complete: true };
    while let Some((state, depth)) = frontier.pop_front() {
        let from = fingerprint(&state);
        explored.states += 1;
        explored.depth = explored.depth.max(depth);
        model.check(&state).map_err(|message| violation(&origins, from, None, message))?;
        for action in model.actions(&state) {
            explored.transitions += 1;
            let next = match model.next(&state, &action) {
                Ok(next) => next,
                Err(message) => return Err(violation(&origins, from, Some(&action), message)),
            };
            let to = fingerprint(&next);
            if origins.contains_key(&to) {
                continue;
            }
            if origins.len() >= limit {
                explored.complete = false;
                continue;
            }
            origins.insert(to, Some(Origin { from, action }));
            frontier.push_back((next, depth + 1));
        }
    }
    Ok(explored)
}

fn violation<A: fmt::Display>(
    origins: &HashMap<u64, Option<Origin<A>>>,
    mut at: u64,
    last: Option<&A>,
    message: String,
) -> Violation {
    let mut history: Vec<String> = last.iter().map(ToString::to_string).collect();
    while let Some(Some(origin)) = origins.get(&at) {
        history.push(origin.action.to_string());
        at = origin.from;
    }
    history.reverse();
    Violation { history, message }
}

/// Returns the fingerprint of a state.
pub(crate) fn fingerprint(state: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

/// Visits all states of a model. Panics with the shortest history to a violation, or if the limit is reached.
#[cfg(test)]
pub(crate) fn explore<M: Model>(name: &impl fmt::Debug, model: &M, limit: usize) -> Explored {
    match search(model, limit) {
        Ok(explored) => {
            println!("{name:?}: {explored:?}");
            assert!(explored.complete);
            explored
        }
        Err(violation) => panic!("{name:?}\n{violation}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that is doubled or incremented up to `highest`, and must not be `forbidden`.
    struct Numbers {
        highest: u32,
        forbidden: u32,
    }

    impl Model for Numbers {
        type State = u32;
        type Action = &'static str;

        fn initial(&self) -> u32 {
            1
        }

        fn actions(&self, _: &u32) -> Vec<&'static str> {
            vec!["add one", "double"]
        }

        fn next(&self, state: &u32, action: &&'static str) -> Result<u32, String> {
            let next = if *action == "double" { state * 2 } else { state + 1 };
            if next == self.highest + 1 && *action == "add one" {
                return Err("too high".to_owned());
            }
            Ok(next.min(self.highest))
        }

        fn check(&self, state: &u32) -> Result<(), String> {
            if *state == self.forbidden { Err(format!("{state} is forbidden")) } else { Ok(()) }
        }
    }

    #[test]
    fn all_states_are_visited_and_counted() {
        struct Counter;
        impl Model for Counter {
            type State = u8;
            type Action = &'static str;
            fn initial(&self) -> u8 {
                0
            }
            fn actions(&self, state: &u8) -> Vec<&'static str> {
                if *state < 9 { vec!["add one"] } else { Vec::new() }
            }
            fn next(&self, state: &u8, _: &&'static str) -> Result<u8, String> {
                Ok(state + 1)
            }
            fn check(&self, _: &u8) -> Result<(), String> {
                Ok(())
            }
        }
        let explored = search(&Counter, 100).unwrap();
        assert_eq!(explored, Explored { states: 10, transitions: 9, depth: 9, complete: true });
        let cut = search(&Counter, 5).unwrap();
        assert_eq!((cut.states, cut.complete), (5, false));
    }

    #[test]
    fn wrong_state_is_reported_with_the_shortest_history() {
        let violation = search(&Numbers { highest: 100, forbidden: 10 }, 1000).unwrap_err();
        assert_eq!(violation.history, ["add one", "double", "add one", "double"]);
        assert_eq!(violation.to_string().lines().last(), Some("     10 is forbidden"));
    }

    #[test]
    fn wrong_step_is_part_of_the_history() {
        let violation = search(&Numbers { highest: 4, forbidden: 0 }, 1000).unwrap_err();
        assert_eq!((violation.history.last().map(String::as_str), &*violation.message), (Some("add one"), "too high"));
    }
}
