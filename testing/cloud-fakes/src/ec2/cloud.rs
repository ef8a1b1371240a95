//! The cloud: what there is, and how a request is answered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::answer::{Answer, Refusal, Service};
use super::calls::{Call, Request};
use super::instance::{Instance, State};
use super::interface::Interface;
use super::script::{Befalls, Script};
use super::settings::Settings;
use super::timed::Timed;
use super::xml::Element;
use crate::model::{Problem, check_request};
use crate::parameters::Parameters;

/// Everything there is. No I/O and no clock: the time of a request is handed in, as an offset from the beginning.
#[derive(Debug, Default)]
pub struct Cloud {
    /// How it behaves; may be changed at any time.
    pub settings: Settings,
    pub(super) instances: Vec<Instance>,
    pub(super) session_keys: BTreeSet<String>,
    scripts: Vec<Script>,
    calls: Vec<Call>,
    given: usize,
}

/// An instance that is made behind the driver's back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Planted {
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

impl Cloud {
    /// An empty cloud.
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Adds a fault script. Scripts apply in the order in which they were added.
    pub fn script(&mut self, script: Script) {
        self.scripts.push(script);
    }

    /// Lets nothing befall calls any more.
    pub fn clear_scripts(&mut self) {
        self.scripts.clear();
    }

    /// Every instance that was ever made, as it is, not as it is shown.
    pub fn instances(&self) -> &[Instance] {
        &self.instances
    }

    /// Those that have not been asked to end and bear this name.
    pub fn alive(&self, name: &str) -> Vec<&Instance> {
        self.instances.iter().filter(|instance| instance.ended.is_none() && instance.name() == name).collect()
    }

    /// Makes an instance without a request.
    pub fn plant(&mut self, now: Duration, planted: Planted) -> String {
        let id = format!("i-{:017x}", self.next());
        let interface = Interface::launched(&Parameters::default(), 0, self.next()).ok();
        self.instances.push(Instance {
            id: id.clone(),
            image: Settings::IMAGE.to_owned(),
            kind: "m5.large".to_owned(),
            zone: format!("{}a", self.settings.region),
            launch: Parameters::default(),
            interfaces: interface.into_iter().collect(),
            volumes: Vec::new(),
            client_token: None,
            made: now,
            ended: None,
            tags: Timed::new(planted.tags),
        });
        id
    }

    /// Ends an instance without a request, as a spot market does.
    pub fn reclaim(&mut self, now: Duration, id: &str) {
        for instance in self.instances.iter_mut().filter(|instance| instance.id == id) {
            instance.ended.get_or_insert(now);
        }
    }

    /// How far an instance is; `None` if there never was one of this id.
    pub fn state(&self, now: Duration, id: &str) -> Option<State> {
        self.instances.iter().find(|instance| instance.id == id).map(|one| one.state(now, &self.settings))
    }

    /// What was asked, oldest first.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// How often an action was asked for.
    pub fn count(&self, action: &str) -> usize {
        self.calls.iter().filter(|call| call.request.action() == action).count()
    }

    /// Forgets what was asked.
    pub fn forget_calls(&mut self) {
        self.calls.clear();
    }

    /// Answers a request. Returns `None` if a script suppresses the response.
    pub fn answer(&mut self, now: Duration, request: Request) -> Option<Answer> {
        let number = self.next();
        let service = if is_sts(request.action()) { Service::Sts } else { Service::Ec2 };
        let struck = self.scripts.iter_mut().find_map(|script| script.strikes(&request));
        let answer = match struck {
            Some(Befalls::NeverAnswered) => None,
            Some(Befalls::Refused(refusal)) => Some(service.refused(&refusal, number)),
            Some(Befalls::RefusedAfterwards(refusal)) => {
                // The effect takes place; the caller gets another response.
                let _ = self.carry_out(now, &request);
                Some(service.refused(&refusal, number))
            }
            None => Some(match self.carry_out(now, &request) {
                Ok(inner) => service.good(request.action(), number, inner),
                Err(refusal) => service.refused(&refusal, number),
            }),
        };
        self.calls.push(Call { at: now, status: answer.as_ref().map(|answer| answer.status), request });
        answer
    }

    pub(super) fn carry_out(&mut self, now: Duration, request: &Request) -> Result<Vec<Element>, Refusal> {
        self.check_who(request)?;
        check_request(request.action(), &request.pairs).map_err(|problems| refusal(&problems))?;
        let asked = &request.parameters;
        match request.action() {
            "RunInstances" => self.run_instances(now, request),
            "DescribeInstances" => self.describe_instances(now, asked),
            "DescribeImages" => self.describe_images(asked),
            "TerminateInstances" => self.terminate_instances(now, asked),
            "CreateTags" => self.create_tags(now, asked),
            "ModifyNetworkInterfaceAttribute" => self.modify_network_interface(now, asked),
            "AssignIpv6Addresses" => self.assign_ipv6(now, asked),
            "AssumeRole" | "AssumeRoleWithWebIdentity" => self.assume(request),
            "GetCallerIdentity" => Ok(self.caller_identity()),
            other => {
                Err(Refusal::new("InvalidAction", format!("The action {other} is not valid for this web service.")))
            }
        }
    }

    fn check_who(&self, request: &Request) -> Result<(), Refusal> {
        let Some(known) = &self.settings.access_keys else { return Ok(()) };
        match &request.access_key {
            // A caller with a web identity has no keys yet.
            _ if request.action() == "AssumeRoleWithWebIdentity" => Ok(()),
            Some(key) if known.contains(key) || self.session_keys.contains(key) => Ok(()),
            Some(_) => {
                let message = "AWS was not able to validate the provided access credentials";
                Err(Refusal::new("AuthFailure", message).with_status(401))
            }
            None => Err(Refusal::new("MissingAuthenticationToken", "the request is not signed").with_status(403)),
        }
    }

    /// A number that was not given out before, for ids and addresses.
    pub(super) fn next(&mut self) -> usize {
        self.given += 1;
        self.given
    }
}

fn is_sts(action: &str) -> bool {
    matches!(action, "AssumeRole" | "AssumeRoleWithWebIdentity" | "GetCallerIdentity")
}

/// AWS names the first problem.
fn refusal(problems: &[Problem]) -> Refusal {
    let message = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let code = match problems.first() {
        Some(Problem::UnknownAction(_)) => "InvalidAction",
        Some(Problem::Unknown(_)) => "UnknownParameter",
        Some(Problem::Missing(_)) => "MissingParameter",
        Some(Problem::Type { .. } | Problem::NoMember(_)) | None => "InvalidParameterValue",
    };
    Refusal::new(code, message)
}
