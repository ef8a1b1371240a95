//! Whether a state comes to rest, and rightly, when nothing goes wrong any more.
//!
//! Every state that a search visits is asked this. Two of them mostly go the same way from some step on, so what was found out once is
//! remembered by fingerprint, and each way is gone once.

use std::cell::RefCell;
use std::collections::HashSet;

use super::{Model, fingerprint};

/// A model that can be left alone.
pub trait Settles: Model {
    /// More steps than this are no way to rest.
    const STEPS: usize;

    /// What happens next when nothing goes wrong and nobody does anything; nothing if all is done.
    fn fair(&self, state: &Self::State) -> Option<Self::Action>;

    /// What is wrong with a state in which nothing happens any more.
    fn rests(&self, state: &Self::State) -> Result<(), String>;

    /// A state in words.
    fn told(&self, state: &Self::State) -> String;
}

/// The states that are known to come to rest rightly.
#[derive(Debug, Default)]
pub struct Settling(RefCell<HashSet<u64>>);

impl Settling {
    /// From here on nothing goes wrong and nobody does anything: does it come to rest, and rightly?
    pub fn check<M: Settles>(&self, model: &M, state: &M::State) -> Result<(), String> {
        let mut way = vec![fingerprint(state)];
        let mut state = state.clone();
        while !way.last().is_some_and(|last| self.0.borrow().contains(last)) {
            let Some(action) = model.fair(&state) else {
                model.rests(&state)?;
                break;
            };
            if way.len() > M::STEPS {
                return Err(format!("never comes to rest: {}", model.told(&state)));
            }
            state = model.next(&state, &action)?;
            way.push(fingerprint(&state));
        }
        self.0.borrow_mut().extend(way);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that falls to zero, except from where it goes round in a circle, and must not rest at another one.
    struct Countdown {
        circle: u8,
        rests_at: u8,
    }

    impl Model for Countdown {
        type State = u8;
        type Action = u8;

        fn initial(&self) -> u8 {
            9
        }

        fn actions(&self, state: &u8) -> Vec<u8> {
            self.fair(state).into_iter().collect()
        }

        fn next(&self, _: &u8, action: &u8) -> Result<u8, String> {
            Ok(*action)
        }

        fn check(&self, _: &u8) -> Result<(), String> {
            Ok(())
        }
    }

    impl Settles for Countdown {
        const STEPS: usize = 20;

        fn fair(&self, state: &u8) -> Option<u8> {
            if *state == self.circle { Some(9) } else { state.checked_sub(1).filter(|next| *next >= self.rests_at) }
        }

        fn rests(&self, state: &u8) -> Result<(), String> {
            if *state == 0 { Ok(()) } else { Err(format!("rests at {state}")) }
        }

        fn told(&self, state: &u8) -> String {
            format!("at {state}")
        }
    }

    #[test]
    fn a_state_that_comes_to_rest_rightly_is_remembered() {
        let (settling, model) = (Settling::default(), Countdown { circle: 100, rests_at: 0 });
        assert_eq!(settling.check(&model, &9), Ok(()));
        assert!((0..=9_u8).all(|state| settling.0.borrow().contains(&fingerprint(&state))));
    }

    #[test]
    fn a_wrong_rest_and_a_circle_are_told() {
        let check = |model: Countdown| Settling::default().check(&model, &9).unwrap_err();
        assert_eq!(check(Countdown { circle: 100, rests_at: 3 }), "rests at 3");
        assert!(check(Countdown { circle: 3, rests_at: 0 }).starts_with("never comes to rest: at "));
    }
}
