//! The cloud: what there is, and what becomes of it in time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::answer::Answer;
use super::request::Request;
use super::settings::Settings;
use super::things::{Port, Server, Volume};

/// An OpenStack with one project. Instants are offsets on its own clock.
#[derive(Debug, Default)]
pub struct Cloud {
    /// How it behaves.
    pub settings: Settings,
    /// Its servers; those that are gone are not among them.
    pub servers: Vec<Server>,
    /// Its ports.
    pub ports: Vec<Port>,
    /// Its volumes.
    pub volumes: Vec<Volume>,
    /// Tokens that are good, and until when.
    pub(super) tokens: BTreeMap<String, Duration>,
    given: usize,
}

impl Cloud {
    /// An empty cloud.
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Makes all tokens worthless before their end.
    pub fn revoke_tokens(&mut self) {
        self.tokens.clear();
    }

    /// Puts a server there that no driver made.
    pub fn plant(&mut self, now: Duration, name: &str, metadata: &[(&str, &str)]) -> String {
        let id = self.id("s");
        let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let server =
            Server { id: id.clone(), name: name.to_owned(), metadata, made: now, built: now, ..Server::default() };
        self.servers.push(server);
        self.advance(now);
        id
    }

    /// Removes the servers of a name without a request.
    pub fn remove_server(&mut self, now: Duration, name: &str) {
        self.servers.iter_mut().filter(|server| server.name == name).for_each(|server| server.gone = Some(now));
        self.advance(now);
    }

    /// Answers a request.
    pub fn answer(&mut self, now: Duration, request: &Request) -> Answer {
        self.advance(now);
        let (method, parts) = request.route();
        let is_known = |token: &String| self.tokens.get(token).is_some_and(|until| now < *until);
        let answer = match parts.as_slice() {
            ["identity", rest @ ..] => self.keystone(now, request, method, rest),
            _ if !request.token.as_ref().is_some_and(is_known) => Answer::unauthorized(),
            ["compute", "v2.1", rest @ ..] => self.nova(now, request, method, rest),
            ["network", "v2.0", rest @ ..] => self.neutron(request, method, rest),
            ["image", "v2", rest @ ..] => Self::glance(request, method, rest),
            ["volume", "v3", _project, rest @ ..] => self.cinder(now, request, method, rest),
            _ => Answer::missing("The resource"),
        };
        self.advance(now);
        answer
    }

    /// What has become of everything by now.
    pub fn advance(&mut self, now: Duration) {
        for volume in &mut self.volumes {
            if volume.status == "creating" && volume.built <= now {
                volume.status = "available";
            }
        }
        let (ending, living): (Vec<Server>, Vec<Server>) = std::mem::take(&mut self.servers)
            .into_iter()
            .partition(|server| server.gone.is_some_and(|gone| gone <= now));
        self.servers = living;
        for server in ending {
            self.unplug(&server.id);
        }
        let built = |server: &&mut Server| server.built <= now && server.fault.is_none() && !server.plugged;
        let ids: Vec<(String, Vec<String>)> = self
            .servers
            .iter_mut()
            .filter(built)
            .map(|server| {
                server.plugged = true;
                (server.id.clone(), super::nova::networks(&server.asked))
            })
            .collect();
        for (id, networks) in ids {
            self.plug(&id, networks);
        }
    }

    /// A server that is built holds its volume and has a port in each network.
    fn plug(&mut self, server: &str, networks: Vec<String>) {
        for volume in self.volumes.iter_mut().filter(|volume| volume.server == server) {
            volume.status = "in-use";
        }
        for network in networks {
            let (id, address) = (self.id("port"), self.address());
            let device = server.to_owned();
            self.ports.push(Port { id, network, device, by_nova: true, address, ..Port::default() });
        }
    }

    /// What a server held is free again, and what was made for it by Nova is gone.
    fn unplug(&mut self, server: &str) {
        self.ports.retain(|port| !(port.by_nova && port.device == server));
        for port in self.ports.iter_mut().filter(|port| port.device == server) {
            port.device.clear();
        }
        self.volumes.retain(|volume| !(volume.server == server && volume.ends_with_server));
        for volume in self.volumes.iter_mut().filter(|volume| volume.server == server) {
            volume.server.clear();
            volume.status = "available";
        }
    }

    /// An id that was not given out before.
    pub(super) fn id(&mut self, kind: &str) -> String {
        self.given += 1;
        format!("{kind}-{:06}", self.given)
    }

    /// An address that was not given out before.
    pub(super) fn address(&mut self) -> String {
        self.given += 1;
        format!("10.250.{}.{}", self.given / 250, self.given % 250 + 1)
    }
}
