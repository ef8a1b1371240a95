//! The server as a tower service: one HTTP request in, one answer out.
//!
//! The work itself is a step under the lock and takes no time. What takes time is around it: reading the body, a delay that a
//! fault asks for, and the stream of a watch.

use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use futures::future::BoxFuture;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, Request, Response, StatusCode, request};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use jiff::{SignedDuration, Timestamp};

use crate::address::Address;
use crate::discovery;
use crate::failure::Failure;
use crate::faults::{Outcome, Refusal, RequestInfo, Staleness, Verb};
use crate::ledger::{Entry, Tally};
use crate::observer::Observation;
use crate::openapi;
use crate::patch::PatchKind;
use crate::protobuf;
use crate::query::Query;
use crate::render::{self, Form};
use crate::reply::{self, Body, ConnectionBroken};
use crate::resource::Resource;
use crate::reviews;
use crate::server::Server;
use crate::state::State;
use crate::verbs::read::{List, ReadAt};
use crate::verbs::update::Language;
use crate::verbs::{Answer, Call, Part, binding, create, delete, eviction, read, scale, update};
use crate::watch::{self, Watch};

/// The largest body that is read.
const LARGEST_BODY: usize = 3 * 1024 * 1024;

/// A boxed error, as tower and hyper use it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Who has to say who he is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    Nobody,
    Everybody,
}

/// A face of the server. Clones are the same face.
#[derive(Clone, Debug)]
pub struct Service {
    server: Server,
    guard: Guard,
}

impl Service {
    pub(crate) fn trusting(server: Server) -> Self {
        Self { server, guard: Guard::Nobody }
    }

    pub(crate) fn guarded(server: Server) -> Self {
        Self { server, guard: Guard::Everybody }
    }
}

impl<B> tower::Service<Request<B>> for Service
where
    B: http_body::Body + Send + 'static,
    B::Data: Buf + Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = ConnectionBroken;
    type Future = BoxFuture<'static, Result<Response<Body>, ConnectionBroken>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = Limited::new(body, LARGEST_BODY).collect().await.map(http_body_util::Collected::to_bytes);
            let body = match body {
                Err(error) if !error.is::<LengthLimitError>() => return Err(ConnectionBroken),
                body => body.map_err(|_| Failure::too_large()),
            };
            let asked = Asked::of(&head);
            let outcome = service.answer(&head, &asked, body).await;
            service.record(&head, asked, &outcome);
            outcome
        })
    }
}

/// What the path and the parameters of a request say.
struct Asked {
    /// Nothing if the path names no objects.
    address: Option<Address>,
    query: Query,
    verb: Option<Verb>,
}

impl Asked {
    fn of(head: &request::Parts) -> Self {
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let address = Address::parse(head.uri.path());
        let verb = address.as_ref().and_then(|address| address.verb(&head.method, &query));
        Self { address, query, verb }
    }
}

impl Service {
    async fn answer(
        &self,
        head: &request::Parts,
        asked: &Asked,
        body: Result<Bytes, Failure>,
    ) -> Result<Response<Body>, ConnectionBroken> {
        if self.guard == Guard::Everybody && self.user(&head.headers).is_none() {
            return Ok(reply::refused(&Failure::unauthorized()));
        }
        let path = head.uri.path();
        if matches!(path, "/healthz" | "/readyz" | "/livez") {
            return Ok(reply::plain(StatusCode::OK, "ok"));
        }
        let body = body.and_then(|body| self.in_json(&head.headers, body));
        let user = self.user(&head.headers).unwrap_or_else(|| "system:admin".to_owned());
        if let Some(review) = reviews::answer(&head.method, path, body.as_deref().unwrap_or_default(), &user) {
            return Ok(reply::json(StatusCode::CREATED, review.to_string().into()));
        }
        let Some(address) = &asked.address else { return Ok(self.about_the_server(path, &head.headers)) };
        let Some(verb) = asked.verb else {
            return Ok(reply::refused(&Failure::method_not_allowed()));
        };
        let shared = &self.server.shared;
        let new_name = new_name(verb, body.as_deref().unwrap_or_default());
        let info = RequestInfo {
            verb,
            resource: &address.plural,
            namespace: address.namespace.as_deref().unwrap_or_default(),
            name: address.name.as_deref().or(new_name.as_deref()).unwrap_or_default(),
            subresource: address.subresource.as_deref().unwrap_or_default(),
            user_agent: header(&head.headers, &USER_AGENT),
        };
        let decision = shared.faults.decide(&info, (shared.now)());
        if !decision.delay.is_zero() {
            tokio::time::sleep(decision.delay).await;
        }
        if decision.outcome == Outcome::Disconnected {
            return Err(ConnectionBroken);
        }
        let response = self.carry_out(address, verb, &asked.query, &head.headers, body, decision.outcome);
        if decision.outcome == Outcome::AnswerLost {
            return Err(ConnectionBroken);
        }
        Ok(response.unwrap_or_else(|failure| reply::refused(&failure)))
    }

    fn carry_out(
        &self,
        address: &Address,
        verb: Verb,
        query: &Query,
        headers: &HeaderMap,
        body: Result<Bytes, Failure>,
        outcome: Outcome,
    ) -> Result<Response<Body>, Failure> {
        let shared = &self.server.shared;
        let form = Form::accepted(headers, query, (shared.now)())?;
        let body = body?;
        let agent = header(headers, &USER_AGENT);
        let mut state = shared.state.lock();
        state.store.observed.act_for(agent, verb, address.subresource.as_deref().unwrap_or_default());
        let Some(resource) = state.catalog.find(&address.group, &address.version, &address.plural).cloned() else {
            // A whole group that nobody serves is not even answered by the part that speaks in `Status` objects.
            let known = state.catalog.all().any(|r| r.group == address.group && r.version == address.version);
            return if known { Err(Failure::unknown_path()) } else { Ok(reply::page_not_found()) };
        };
        let part =
            Part::of(&resource, address.subresource.as_deref()).ok_or_else(|| no_such_part(&resource, address))?;
        let name = address.name.clone();
        let call = Call {
            namespace: address.namespace.clone(),
            name,
            part,
            query: query.clone(),
            now: (shared.now)(),
            resource,
        };
        let resource = &call.resource;
        check_scope(&call, verb)?;
        check_parameters(&call, verb)?;
        if let Outcome::Refused(refusal) = outcome {
            return Err(refusal_of(refusal, verb, &call, &state));
        }
        let one = |answer: Answer| reply::object(resource, form, &answer);
        let seen = seen(outcome, &state, &call);
        match (verb, part) {
            (Verb::Update | Verb::Patch, Part::Whole | Part::Status) if outcome == Outcome::Reverted => {
                read::get(&state, &call, seen).map(one)
            }
            (Verb::Get, Part::Scale) => scale::get(&state, &call).map(one),
            (Verb::Get, Part::Whole | Part::Status) => read::get(&state, &call, seen).map(one),
            (Verb::List, Part::Whole) => {
                let list = read::list(&state, &call, seen)?;
                drop(state);
                Ok(reply::json(StatusCode::OK, render::list(resource, form, &list)))
            }
            (Verb::Watch, Part::Whole) => {
                let request = watch::Request::open(&mut state, &call, form, shared.shortest_watch)?;
                drop(state);
                Ok(self.stream(request, outcome, agent))
            }
            (Verb::Create, Part::Whole) => {
                check_json(headers)?;
                create::create(&mut state, &call, &body).map(one)
            }
            (Verb::Create, Part::Binding) => {
                check_json(headers)?;
                binding::bind(&mut state, &call, &body).map(one)
            }
            (Verb::Create, Part::Eviction) => {
                check_json(headers)?;
                eviction::evict(&mut state, &call, &body).map(one)
            }
            (Verb::Update, Part::Scale) => {
                check_json(headers)?;
                scale::update(&mut state, &call, &body).map(one)
            }
            (Verb::Patch, Part::Scale) => {
                let language = patch_language(headers, resource)?;
                scale::patch(&mut state, &call, language, &body).map(one)
            }
            (Verb::Update, Part::Whole | Part::Status | Part::Finalize) => {
                check_json(headers)?;
                update::update(&mut state, &call, &body).map(one)
            }
            (Verb::Patch, Part::Whole | Part::Status) => {
                let language = patch_language(headers, resource)?;
                update::patch(&mut state, &call, language, &body).map(one)
            }
            (Verb::Delete, Part::Whole) => {
                let options = delete::Options::parse(&call, &body)?;
                delete::delete(&mut state, &call, &options).map(one)
            }
            (Verb::DeleteCollection, Part::Whole) => {
                let options = delete::Options::parse(&call, &body)?;
                let items = delete::delete_collection(&mut state, &call, &options)?;
                let list = List { items, revision: state.store.revision(), next: None, remaining: None };
                Ok(reply::json(StatusCode::OK, render::list(resource, form, &list)))
            }
            _ => Err(Failure::method_not_allowed()),
        }
    }

    fn stream(&self, request: watch::Request, outcome: Outcome, agent: &str) -> Response<Body> {
        let fault = match outcome {
            Outcome::Watch { fault, after } => Some((fault, after)),
            _ => None,
        };
        reply::events(Watch::new(self.server.shared.clone(), request, fault, agent))
    }

    fn about_the_server(&self, path: &str, headers: &HeaderMap) -> Response<Body> {
        let state = self.server.shared.state.lock();
        if discovery::is_wanted_whole(header(headers, &ACCEPT))
            && let Some(document) = discovery::aggregated(&state.catalog, path)
        {
            return reply::json_as(discovery::AGGREGATED, document.to_string().into());
        }
        let document = discovery::document(&state.catalog, path).or_else(|| openapi::answer(&state.catalog, path));
        match document {
            Some(document) => reply::json(StatusCode::OK, document.to_string().into()),
            None => reply::page_not_found(),
        }
    }

    /// The body of a request, in JSON whatever it came in.
    fn in_json(&self, headers: &HeaderMap, body: Bytes) -> Result<Bytes, Failure> {
        if media_type(headers) != protobuf::MEDIA_TYPE || body.is_empty() {
            return Ok(body);
        }
        let types = self.server.shared.state.lock().catalog.types().clone();
        let object = protobuf::to_json(&types, &body);
        object
            .map(|object| object.to_string().into())
            .ok_or_else(|| Failure::unsupported_media_type("application/json"))
    }

    /// Who the token in the headers belongs to.
    fn user(&self, headers: &HeaderMap) -> Option<String> {
        let token = header(headers, &AUTHORIZATION).strip_prefix("Bearer ").unwrap_or_default();
        self.server.shared.tokens.lock().get(token).cloned()
    }

    fn record(&self, head: &request::Parts, asked: Asked, outcome: &Result<Response<Body>, ConnectionBroken>) {
        let Asked { address, verb, .. } = asked;
        let verb = verb.map_or_else(|| head.method.as_str().to_lowercase(), |v| v.as_str().to_owned());
        let resource = match &address {
            None => head.uri.path().to_owned(),
            Some(Address { plural, subresource: None, .. }) => plural.clone(),
            Some(Address { plural, subresource: Some(part), .. }) => format!("{plural}/{part}"),
        };
        let code = outcome.as_ref().map_or(0, |response| response.status().as_u16());
        let user_agent = header(&head.headers, &USER_AGENT).to_owned();
        let (namespace, name) = address.map(|a| (a.namespace, a.name)).unwrap_or_default();
        let entry = Entry {
            at: (self.server.shared.now)(),
            tally: Tally { user_agent, verb, resource, code },
            namespace: namespace.unwrap_or_default(),
            name: name.unwrap_or_default(),
        };
        self.server.shared.state.lock().store.observed.tell(&Observation::Answered(&entry));
        self.server.shared.ledger.lock().record(entry);
    }
}

/// The name in the body of a create, so that a fault can be meant for one object before it exists.
fn new_name(verb: Verb, body: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Named {
        metadata: Name,
    }
    #[derive(serde::Deserialize)]
    struct Name {
        name: String,
    }
    let named = (verb == Verb::Create).then(|| serde_json::from_slice::<Named>(body).ok())?;
    named.map(|named| named.metadata.name)
}

/// Objects of the cluster are not asked for in a namespace, and one object of a namespaced kind not without.
fn check_scope(call: &Call, verb: Verb) -> Result<(), Failure> {
    let placed = call.namespace.is_some();
    match (call.resource.is_namespaced(), placed) {
        (false, true) => Err(Failure::unknown_path()),
        (true, false) if call.name.is_some() => Err(Failure::unknown_path()),
        (true, false) if verb == Verb::Create => Err(Failure::method_not_allowed()),
        _ => Ok(()),
    }
}

/// A part that a kind does not have. Of a custom kind the reference says that the object is missing, whether it is or not.
fn no_such_part(resource: &Resource, address: &Address) -> Failure {
    match &address.name {
        Some(name) if resource.custom => Failure::not_found(resource, name),
        _ => Failure::unknown_path(),
    }
}

/// Refuses parameters that mean nothing, before anything else is looked at. Only verbs that write have any of these.
fn check_parameters(call: &Call, verb: Verb) -> Result<(), Failure> {
    let options = match verb {
        Verb::Create => "CreateOptions",
        Verb::Update => "UpdateOptions",
        Verb::Patch => "PatchOptions",
        Verb::Delete | Verb::DeleteCollection => return call.query.check_dry_run("DeleteOptions"),
        Verb::Get | Verb::List | Verb::Watch => return Ok(()),
    };
    call.query.check_dry_run(options)?;
    call.query.check_field_validation(options)
}

fn seen(outcome: Outcome, state: &State, call: &Call) -> ReadAt {
    let Outcome::Stale(staleness) = outcome else { return ReadAt::Now };
    let now = state.store.revision();
    ReadAt::AsOf(match staleness {
        Staleness::Revisions(count) => state.store.revision_back(call.resource.stored_as(), now.saturating_sub(count)),
        Staleness::Age(age) => {
            let age = SignedDuration::try_from(age).unwrap_or(SignedDuration::MAX);
            let then = call.now.checked_sub(age).unwrap_or(Timestamp::MIN);
            state.store.revision_at(call.resource.stored_as(), then)
        }
    })
}

fn refusal_of(refusal: Refusal, verb: Verb, call: &Call, state: &State) -> Failure {
    let name = call.name.as_deref().unwrap_or_default();
    match refusal {
        Refusal::Conflict => Failure::modified(&call.resource, name),
        Refusal::TooManyRequests { retry_after } => Failure::too_many_requests(retry_after),
        Refusal::Forbidden => Failure::denied(verb, call),
        Refusal::InternalError => Failure::internal("etcdserver: request timed out"),
        Refusal::Unavailable => {
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "apiserver not ready")
        }
        Refusal::Gone => {
            let wanted = call.query.text("resourceVersion").unwrap_or("0");
            Failure::expired(format!("too old resource version: {wanted} ({})", state.store.revision()))
        }
    }
}

/// The format of the body, without its parameters.
fn media_type(headers: &HeaderMap) -> &str {
    header(headers, &CONTENT_TYPE).split(';').next().unwrap_or_default().trim()
}

fn check_json(headers: &HeaderMap) -> Result<(), Failure> {
    match media_type(headers) {
        "" | "application/json" | protobuf::MEDIA_TYPE => Ok(()),
        _ => Err(Failure::unsupported_media_type("application/json")),
    }
}

/// The language of a patch. Applying is known but not spoken here, so it gets the list of those that are.
fn patch_language(headers: &HeaderMap, resource: &Resource) -> Result<Language, Failure> {
    match (PatchKind::of_content_type(header(headers, &CONTENT_TYPE)), media_type(headers)) {
        (Some(kind), _) => Ok(Language::General(kind)),
        (None, "application/strategic-merge-patch+json") if resource.kind_type.is_some() => Ok(Language::Strategic),
        (None, "application/strategic-merge-patch+json") => Err(Failure::unsupported_patch(resource)),
        (None, "application/apply-patch+yaml" | "application/apply-patch+cbor") => Err(Failure::no_apply(resource)),
        (None, _) => Err(Failure::unknown_media_type()),
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> &'a str {
    headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
}
