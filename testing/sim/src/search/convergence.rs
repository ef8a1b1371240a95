//! Checks whether a state converges to the right state if no further faults occur.
//!
//! Every visited state is checked. The paths of most states join at some step, so the states of checked paths are
//! stored by fingerprint, and each path is followed once.

use std::cell::RefCell;
use std::collections::HashSet;

use super::{Model, fingerprint};

/// A model that converges without external steps.
pub trait Settles: Model {
    /// Number of steps after which a path counts as endless.
    const MAX_STEPS: usize;

    /// Returns the next step without faults and external changes, or `None` if there is none.
    fn fair_action(&self, state: &Self::State) -> Option<Self::Action>;

    /// Checks a state without a next step.
    fn check_settled(&self, state: &Self::State) -> Result<(), String>;

    /// Describes a state.
    fn describe(&self, state: &Self::State) -> String;
}

/// The states that are known to converge.
#[derive(Debug, Default)]
pub struct ConvergenceCheck(RefCell<HashSet<u64>>);

impl ConvergenceCheck {
    /// Checks that a state converges to the right state without faults and external changes.
    pub fn check<M: Settles>(&self, model: &M, state: &M::State) -> Result<(), String> {
        let mut path = vec![fingerprint(state)];
        let mut state = state.clone();
        while !path.last().is_some_and(|last| self.0.borrow().contains(last)) {
            let Some(action) = model.fair_action(&state) else {
                model.check_settled(&state)?;
                break;
            };
            if path.len() > M::MAX_STEPS {
                return Err(format!("never converges: {}", model.describe(&state)));
            }
            state = model.next(&state, &action)?;
            path.push(fingerprint(&state));
        }
        self.0.borrow_mut().extend(path);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that counts down to zero, except that it jumps back to 9 at `circle`. It must not stop at another
    /// number.
    struct Countdown {
        circle: u8,
        stops_at: u8,
    }

    impl Model for Countdown {
        type State = u8;
        type Action = u8;

        fn initial(&self) -> u8 {
            9
        }

        fn actions(&self, state: &u8) -> Vec<u8> {
            self.fair_action(state).into_iter().collect()
        }

        fn next(&self, _: &u8, action: &u8) -> Result<u8, String> {
            Ok(*action)
        }

        fn check(&self, _: &u8) -> Result<(), String> {
            Ok(())
        }
    }

    impl Settles for Countdown {
        const MAX_STEPS: usize = 20;

        fn fair_action(&self, state: &u8) -> Option<u8> {
            if *state == self.circle { Some(9) } else { state.checked_sub(1).filter(|next| *next >= self.stops_at) }
        }

        fn check_settled(&self, state: &u8) -> Result<(), String> {
            if *state == 0 { Ok(()) } else { Err(format!("stops at {state}")) }
        }

        fn describe(&self, state: &u8) -> String {
            format!("at {state}")
        }
    }

    #[test]
    fn states_of_a_converging_path_are_stored() {
        let (settling, model) = (ConvergenceCheck::default(), Countdown { circle: 100, stops_at: 0 });
        assert_eq!(settling.check(&model, &9), Ok(()));
        assert!((0..=9_u8).all(|state| settling.0.borrow().contains(&fingerprint(&state))));
    }

    #[test]
    fn wrong_end_and_endless_loop_are_reported() {
        let check = |model: Countdown| ConvergenceCheck::default().check(&model, &9).unwrap_err();
        assert_eq!(check(Countdown { circle: 100, stops_at: 3 }), "stops at 3");
        assert!(check(Countdown { circle: 3, stops_at: 0 }).starts_with("never converges: at "));
    }
}
