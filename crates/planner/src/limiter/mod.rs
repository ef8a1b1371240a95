//! Who may call the cloud now, and who waits.
//!
//! Clouds bound what one account may ask of them, and a controller that does not bound itself first is throttled: its deletions
//! with its creations, and every other tool of the account with both. So all calls pass one limiter, and the limiter keeps four rules.
//!
//! 1. **Places.** At most so many calls are out at once for one credential. The rest stand in [`line`], where every deployment has its
//!    turn, and no deployment takes the last places for itself: a thousand machines that hang must not hold up ten that would not.
//! 2. **Pauses.** A cloud that answers *unavailable* several times in a row wants to be left alone ([`pause`]): nothing leaves for
//!    that credential for a while that doubles each time, then one call tries for all.
//! 3. **Capacity.** A class whose create was refused for want of quota or room is held back as a whole ([`capacity`]): its creates,
//!    and nothing else. Deletions free room, status costs nothing, and other classes are the autoscaler's way out. After the wait
//!    one machine tries; each success lets twice as many try.
//! 4. **Turns.** Within a deployment deletions and the rest take turns. Deletions first would let a thousand failing deletions
//!    starve the replacements; creations first would keep rooms occupied that the creations wait for.
//!
//! Everything here is data: the time comes in as the distance from a beginning that the caller chose, and so does chance.

mod capacity;
mod pause;
mod queue;
mod request;
mod timeout;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::Code;
use jiff::Timestamp;

use crate::Policy;
use capacity::Room;
use pause::Pause;
pub use queue::CallPriority;
use queue::FairQueue;
pub use request::credential;
pub use timeout::call_timeout;

/// Whether a class has room for another VM, as a machine's plan sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity<'a> {
    /// Nothing speaks against it.
    Open,
    /// The cloud has refused a create of this class; one machine tries again at this time.
    Exhausted {
        /// What the cloud said.
        refusal: &'a Refusal,
        /// When to look again at the latest.
        until: Timestamp,
    },
}

/// What the cloud said when it refused a create for want of room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its code.
    pub code: Code,
    /// Its sentence, without any secret.
    pub message: String,
}

/// A time, as the distance from a beginning that the caller chose.
pub type Moment = Duration;

/// One call that wants to pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRequest {
    /// Whose limits it counts against.
    pub credential: String,
    /// The class it is about.
    pub class: String,
    /// Whom it is about: a machine's name, or none.
    pub subject: String,
    /// The deployment it is for, as far as there is one.
    pub pool: String,
    /// Which of the deployment's priorities it stands in.
    pub priority: CallPriority,
    /// What it has to do with the room of its class.
    pub capacity_use: CapacityUse,
}

/// What a call has to do with the room of its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapacityUse {
    /// It takes some: a create.
    Takes,
    /// It comes before a create, so it takes the turn of the one that tries, if that is free; else it just passes.
    Precedes,
    /// Nothing.
    None,
}

/// A call at the limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(u64);

/// Whether a call was let into the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It waits to be admitted.
    Waits(CallId),
    /// Its class is held back, so it would only be refused.
    TurnedAway,
}

/// What a call that has ended says about the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// A create succeeded: there was room.
    Made,
    /// The cloud answered, well or badly: it is there.
    Answered,
    /// The cloud is not available to this credential just now.
    Throttled,
    /// There was no room for another VM of this class.
    Exhausted(Refusal),
    /// Nothing: the call never left, or nobody heard the answer.
    Nothing,
}

impl CallOutcome {
    /// What an error says. `Unavailable` is the code for a cloud that is down or throttles; `ResourceExhausted` counts only as the
    /// answer to a create, because nothing else needs room.
    #[must_use]
    pub fn of_error(code: Code, capacity_use: CapacityUse, message: &str) -> Self {
        match (code, capacity_use) {
            (Code::Unavailable, _) => Self::Throttled,
            (Code::ResourceExhausted, CapacityUse::Takes) => {
                Self::Exhausted(Refusal { code, message: message.to_owned() })
            }
            (Code::Canceled | Code::DeadlineExceeded, _) => Self::Nothing,
            _ => Self::Answered,
        }
    }
}

/// What follows for others when a call has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aftermath {
    /// Calls in the line that would only be refused now.
    pub turned_away: Vec<CallId>,
    /// The class that has more room than before: whoever was held back may look again.
    pub roomier: Option<String>,
}

/// The limiter's numbers at one moment, for one credential.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Calls that are out.
    pub out: usize,
    /// Calls that wait.
    pub waiting: usize,
    /// Whether the cloud wanted to be left alone.
    pub paused: bool,
}

/// The limiter: who is out, who waits, and why.
#[derive(Debug)]
pub struct CallLimiter {
    places: usize,
    policy: Policy,
    next: u64,
    requests: BTreeMap<CallId, (CallRequest, State)>,
    doors: BTreeMap<String, Door>,
    classes: BTreeMap<String, Room>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Out,
}

/// What the limiter keeps for one credential.
#[derive(Debug, Default)]
struct Door {
    line: FairQueue,
    out: BTreeSet<CallId>,
    /// How many places each deployment holds with each of its priorities.
    held: BTreeMap<(String, CallPriority), usize>,
    pause: Pause,
}

/// How many times what is left free a deployment may hold with one priority.
const GREED: usize = 16;

/// Whether a priority of a deployment that holds so many places may take another of those that are free. Alone it gets nearly all, but
/// never the last: that is for whoever has none. So calls that hang, be it creations, hold up neither other deployments nor the
/// deletions of their own.
fn may_take(held: Option<usize>, free: usize, places: usize) -> bool {
    // Of a handful of places none is set aside: whoever allows so few calls wants them all used.
    let set_aside = usize::from(places >= 8);
    match held {
        None | Some(0) => free > 0,
        Some(held) => held < GREED.saturating_mul(free.saturating_sub(set_aside)),
    }
}

impl CallLimiter {
    /// A limiter with this many places for each credential, at least one.
    #[must_use]
    pub fn new(places: usize, policy: Policy) -> Self {
        Self {
            places: places.max(1),
            policy,
            next: 0,
            requests: BTreeMap::new(),
            doors: BTreeMap::new(),
            classes: BTreeMap::new(),
        }
    }

    /// A call wants to pass.
    pub fn arrive(&mut self, request: CallRequest, now: Moment) -> Arrival {
        let id = CallId(self.next);
        let free = self.room(&request.class, now).is_none();
        match (request.capacity_use, free) {
            (CapacityUse::Takes, false) => return Arrival::TurnedAway,
            (CapacityUse::Takes | CapacityUse::Precedes, true) => {
                if let Some(room) = self.classes.get_mut(&request.class) {
                    room.claim(id, now);
                }
            }
            (CapacityUse::Precedes, false) | (CapacityUse::None, _) => {}
        }
        self.next += 1;
        self.doors.entry(request.credential.clone()).or_default().line.join(id, &request.pool, request.priority);
        self.requests.insert(id, (request, State::Waiting));
        Arrival::Waits(id)
    }

    /// Who may leave now. Each of them is out from now on.
    pub fn admit(&mut self, now: Moment) -> Vec<CallId> {
        let mut admitted = Vec::new();
        let places = self.places;
        for door in self.doors.values_mut() {
            let mut allowed = door.pause.allowance(now, &self.policy).min(places.saturating_sub(door.out.len()));
            while allowed > 0 {
                let free = places.saturating_sub(door.out.len());
                let held = &door.held;
                let may =
                    |pool: &str, priority| may_take(held.get(&(pool.to_owned(), priority)).copied(), free, places);
                let Some((id, pool, priority)) = door.line.next(may) else { break };
                door.out.insert(id);
                *door.held.entry((pool, priority)).or_default() += 1;
                door.pause.left(id, now);
                if let Some((_, state)) = self.requests.get_mut(&id) {
                    *state = State::Out;
                }
                admitted.push(id);
                allowed -= 1;
            }
        }
        admitted
    }

    /// A call has ended, or is given up before it left. `chance`, from zero to one, spreads what would otherwise happen at one time
    /// everywhere.
    pub fn leave(&mut self, id: CallId, decision: &CallOutcome, now: Moment, chance: f64) -> Aftermath {
        let Some((request, state)) = self.requests.remove(&id) else { return Aftermath::default() };
        if let Some(door) = self.doors.get_mut(&request.credential) {
            match state {
                State::Waiting => door.line.quit(id, &request.pool),
                State::Out => {
                    door.out.remove(&id);
                    if let Some(count) = door.held.get_mut(&(request.pool.clone(), request.priority)) {
                        *count = count.saturating_sub(1);
                    }
                    door.held.retain(|_, count| *count > 0);
                    door.pause.heard((id, &request.subject), decision, now, chance, &self.policy);
                }
            }
            if door.is_idle() {
                self.doors.remove(&request.credential);
            }
        }
        self.learn_of_room(id, &request, decision, now, chance)
    }

    /// What is known of a class's room: the refusal and how long to wait, if it is held back.
    #[must_use]
    pub fn room(&self, class: &str, now: Moment) -> Option<(&Refusal, Duration)> {
        self.classes.get(class)?.held(now, &self.policy)
    }

    /// The classes whose wait has ended since the last time this was asked: their machines may look again.
    pub fn classes_due(&mut self, now: Moment) -> Vec<String> {
        let due = self.classes.iter_mut().filter_map(|(class, room)| room.comes_due(now).then(|| class.clone()));
        due.collect()
    }

    /// When something changes by itself next.
    #[must_use]
    pub fn next_change(&self) -> Option<Moment> {
        let doors = self.doors.values().filter_map(|door| door.pause.ends(&self.policy));
        doors.chain(self.classes.values().filter_map(Room::due)).min()
    }

    /// What goes on at each credential.
    #[must_use]
    pub fn traffic(&self) -> BTreeMap<&str, Traffic> {
        let of = |door: &Door| Traffic { out: door.out.len(), waiting: door.line.len(), paused: door.pause.is_on() };
        self.doors.iter().map(|(credential, door)| (credential.as_str(), of(door))).collect()
    }

    /// The classes that are held back.
    pub fn classes_held_back(&self, now: Moment) -> impl Iterator<Item = &str> {
        self.classes
            .iter()
            .filter(move |(_, room)| room.held(now, &self.policy).is_some())
            .map(|(class, _)| class.as_str())
    }

    /// A class is gone, and what was said of its room with it.
    pub fn forget_class(&mut self, class: &str) {
        self.classes.remove(class);
    }

    fn learn_of_room(
        &mut self,
        id: CallId,
        request: &CallRequest,
        decision: &CallOutcome,
        now: Moment,
        chance: f64,
    ) -> Aftermath {
        let mut aftermath = Aftermath::default();
        match (request.capacity_use, decision) {
            (CapacityUse::Takes, CallOutcome::Exhausted(refusal)) => {
                let room = self.classes.entry(request.class.clone()).or_default();
                room.refused(id, refusal.clone(), now, chance, &self.policy);
                let refused = |(_, (other, state)): &(&CallId, &(CallRequest, State))| {
                    other.capacity_use == CapacityUse::Takes && other.class == request.class && *state == State::Waiting
                };
                aftermath.turned_away = self.requests.iter().filter(refused).map(|(id, _)| *id).collect();
            }
            (CapacityUse::Takes, CallOutcome::Made) => {
                if let Some(room) = self.classes.get_mut(&request.class) {
                    if room.succeeded(id, self.places) {
                        aftermath.roomier = Some(request.class.clone());
                    }
                    if room.is_open() {
                        self.classes.remove(&request.class);
                    }
                }
            }
            _ => {
                if let Some(room) = self.classes.get_mut(&request.class) {
                    room.released(id);
                }
            }
        }
        aftermath
    }
}

impl Door {
    fn is_idle(&self) -> bool {
        self.out.is_empty() && self.line.len() == 0 && self.pause.is_forgotten()
    }
}

#[cfg(test)]
mod tests;
