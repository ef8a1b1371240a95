//! An instance as it is shown.

use std::time::Duration;

use super::instance::{Instance, State};
use super::settings::Settings;
use super::xml::{Element, node, set, text};

/// The members of an instance, at an instant.
pub(super) fn instance(instance: &Instance, then: Duration, settings: &Settings) -> Vec<Element> {
    in_state(instance.state(then, settings), instance, then, settings)
}

/// The same in the answer to its launch, which calls every instance pending.
pub(super) fn launched(instance: &Instance, now: Duration, settings: &Settings) -> Vec<Element> {
    in_state(State::Pending, instance, now, settings)
}

fn in_state(state: State, instance: &Instance, then: Duration, settings: &Settings) -> Vec<Element> {
    let alive = state < State::ShuttingDown;
    let launch = |key: &str| instance.launch.get(key);
    let tag = |(key, value): (&String, &String)| vec![text("key", key), text("value", value)];
    let mut shown = vec![
        text("instanceId", &instance.id),
        text("imageId", &instance.image),
        node("instanceState", vec![text("code", state as u8), text("name", state.name())]),
        text("privateDnsName", instance.private_dns_name(then, settings)),
        text("instanceType", &instance.kind),
        text("launchTime", "2026-01-01T00:00:00.000Z"),
        node("placement", placement(instance)),
        text("architecture", "x86_64"),
        text("rootDeviceType", "ebs"),
        set("tagSet", instance.tags.at(then).iter().map(tag)),
        set("networkInterfaceSet", instance.interfaces.iter().filter(|_| alive).map(|i| i.shown(then))),
        set("blockDeviceMapping", instance.volumes.iter().filter(|_| alive).map(volume)),
    ];
    let root = settings.images.iter().find(|image| image.id == instance.image).map(|image| &image.root_device_name);
    if let Some(name) = root.filter(|name| !name.is_empty()) {
        shown.push(text("rootDeviceName", name));
    }
    if let Some(token) = &instance.client_token {
        shown.push(text("clientToken", token));
    }
    if let Some(key) = launch("KeyName") {
        shown.push(text("keyName", key));
    }
    if let Some(market) = launch("InstanceMarketOptions.MarketType") {
        shown.push(text("instanceLifecycle", market));
    }
    if let Some(first) = instance.interfaces.first().filter(|_| alive) {
        shown.push(text("privateIpAddress", &first.address));
        shown.push(text("subnetId", &first.subnet));
        shown.push(text("sourceDestCheck", first.source_dest_check.at(then)));
    }
    shown.push(node("metadataOptions", metadata(instance)));
    shown.push(node("cpuOptions", options(instance, "CpuOptions", &CPU)));
    let profile = launch("IamInstanceProfile.Arn").map(str::to_owned).or_else(|| {
        let name = launch("IamInstanceProfile.Name")?;
        Some(format!("arn:aws:iam::{}:instance-profile/{name}", settings.account))
    });
    if let Some(arn) = profile {
        shown.push(node("iamInstanceProfile", vec![text("arn", arn)]));
    }
    shown
}

const METADATA: [(&str, &str, &str); 4] = [
    ("HttpEndpoint", "httpEndpoint", "enabled"),
    ("HttpTokens", "httpTokens", "optional"),
    ("HttpProtocolIpv6", "httpProtocolIpv6", "disabled"),
    ("HttpPutResponseHopLimit", "httpPutResponseHopLimit", "1"),
];
const CPU: [(&str, &str); 3] =
    [("CoreCount", "coreCount"), ("ThreadsPerCore", "threadsPerCore"), ("AmdSevSnp", "amdSevSnp")];
const PLACEMENT: [(&str, &str); 6] = [
    ("Tenancy", "tenancy"),
    ("GroupName", "groupName"),
    ("GroupId", "groupId"),
    ("HostId", "hostId"),
    ("PartitionNumber", "partitionNumber"),
    ("Affinity", "affinity"),
];

fn options(instance: &Instance, group: &str, names: &[(&str, &str)]) -> Vec<Element> {
    let Some(given) = instance.launch.at(group) else { return Vec::new() };
    names.iter().filter_map(|(key, shown)| Some(text(shown, given.get(key)?))).collect()
}

/// What was not asked for has AWS' defaults.
fn metadata(instance: &Instance) -> Vec<Element> {
    let given = |key: &str| instance.launch.at("MetadataOptions").and_then(|given| given.get(key));
    METADATA.iter().map(|(key, shown, otherwise)| text(shown, given(key).unwrap_or(otherwise))).collect()
}

fn placement(instance: &Instance) -> Vec<Element> {
    let mut shown = options(instance, "Placement", &PLACEMENT);
    shown.push(text("availabilityZone", &instance.zone));
    shown
}

fn volume(volume: &super::Volume) -> Vec<Element> {
    let ebs = vec![
        text("volumeId", &volume.id),
        text("status", "attached"),
        text("deleteOnTermination", volume.delete_on_termination),
    ];
    vec![text("deviceName", &volume.device), node("ebs", ebs)]
}
