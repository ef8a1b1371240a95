//! `RunInstances`.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::answer::Refusal;
use super::calls::Request;
use super::cloud::Cloud;
use super::instance::{Instance, Volume};
use super::interface::Interface;
use super::settings::Settings;
use super::timed::Timed;
use super::xml::{Element, set, text};
use super::{shown, token};
use crate::parameters::Parameters;

/// AWS' limit, before Base64.
const LARGEST_USER_DATA: usize = 16 << 10;

impl Cloud {
    pub(super) fn run_instances(&mut self, now: Duration, request: &Request) -> Result<Vec<Element>, Refusal> {
        let before = token::made_before(request, &self.instances)?;
        let made: Vec<Instance> =
            if before.is_empty() { self.launch(now, request)? } else { before.into_iter().cloned().collect() };
        let items = made.iter().map(|instance| shown::launched(instance, now, &self.settings));
        let answer = vec![
            text("reservationId", format!("r-{}", self.settings.account)),
            text("ownerId", &self.settings.account),
            set("instancesSet", items),
        ];
        self.instances.extend(
            made.into_iter().filter(|one| !self.instances.iter().any(|known| known.id == one.id)).collect::<Vec<_>>(),
        );
        Ok(answer)
    }

    fn launch(&mut self, now: Duration, request: &Request) -> Result<Vec<Instance>, Refusal> {
        let wanted = &request.parameters;
        check(wanted, &self.settings)?;
        let count = |key: &str| wanted.get(key).and_then(|value| value.parse::<usize>().ok()).unwrap_or_default();
        let (least, most) = (count("MinCount"), count("MaxCount"));
        if least == 0 || least > most {
            return Err(Refusal::new("InvalidParameterValue", "MinCount has to be between one and MaxCount"));
        }
        (0..most).map(|_| self.launch_one(now, wanted)).collect()
    }

    fn launch_one(&mut self, now: Duration, wanted: &Parameters) -> Result<Instance, Refusal> {
        let asked = wanted.list("NetworkInterface");
        let mut interfaces = Vec::new();
        for (place, asked) in asked.into_iter().enumerate() {
            interfaces.push(Interface::launched(asked, place, self.next())?);
        }
        if interfaces.is_empty() {
            let mut only = Interface::launched(&Parameters::default(), 0, self.next())?;
            wanted.get("SubnetId").unwrap_or("subnet-default").clone_into(&mut only.subnet);
            interfaces.push(only);
        }
        let mut places: Vec<_> = interfaces.iter().map(|one| (one.network_card_index, one.device_index)).collect();
        places.sort_unstable();
        places.dedup();
        if places.len() < interfaces.len() {
            return Err(Refusal::new("InvalidParameterValue", "each device index may be used once on a network card"));
        }
        let zone = zone(wanted, &interfaces, &self.settings)?;
        let mut volumes = Vec::new();
        for asked in wanted.list("BlockDeviceMapping") {
            volumes.push(volume(asked, self.next(), &tags_for("volume", wanted))?);
        }
        Ok(Instance {
            id: format!("i-{:017x}", self.next()),
            image: wanted.get("ImageId").unwrap_or_default().to_owned(),
            kind: wanted.get("InstanceType").unwrap_or("m1.small").to_owned(),
            zone,
            launch: wanted.clone(),
            interfaces,
            volumes,
            client_token: wanted.get("ClientToken").map(str::to_owned),
            made: now,
            ended: None,
            tags: Timed::new(tags_for("instance", wanted)),
        })
    }
}

fn check(wanted: &Parameters, settings: &Settings) -> Result<(), Refusal> {
    let image = wanted.get("ImageId").ok_or_else(|| Refusal::new("MissingParameter", "ImageId is missing"))?;
    if !settings.images.iter().any(|known| known.id == image) {
        return Err(Refusal::new("InvalidAMIID.NotFound", format!("The image id '[{image}]' does not exist")));
    }
    match (wanted.get("IamInstanceProfile.Name"), wanted.get("IamInstanceProfile.Arn")) {
        (Some(_), Some(_)) => {
            return Err(Refusal::new("InvalidParameterCombination", "a profile has a name or an ARN, not both"));
        }
        (Some(name), None) if !settings.instance_profiles.is_empty() && !settings.instance_profiles.contains(name) => {
            return Err(Refusal::new("InvalidParameterValue", format!("Invalid IAM Instance Profile name: {name}")));
        }
        _ => {}
    }
    if let Some(data) = wanted.get("UserData") {
        let decoded = STANDARD
            .decode(data)
            .map_err(|_| Refusal::new("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data."))?;
        if decoded.len() > LARGEST_USER_DATA {
            return Err(Refusal::new("InvalidParameterValue", "User data is limited to 16384 bytes"));
        }
    }
    if let Some(reservation) = wanted.at("CapacityReservationSpecification")
        && reservation.get("CapacityReservationPreference").is_some()
        && reservation.at("CapacityReservationTarget").is_some()
    {
        return Err(Refusal::new(
            "InvalidParameterCombination",
            "a reservation has a preference or a target, not both",
        ));
    }
    Ok(())
}

fn zone(wanted: &Parameters, interfaces: &[Interface], settings: &Settings) -> Result<String, Refusal> {
    let first = format!("{}a", settings.region);
    if settings.subnets.is_empty() {
        return Ok(wanted.get("Placement.AvailabilityZone").map_or(first, str::to_owned));
    }
    let mut zone = first;
    for interface in interfaces {
        let known = settings.subnets.get(&interface.subnet);
        zone = known.cloned().ok_or_else(|| {
            Refusal::new("InvalidSubnetID.NotFound", format!("The subnet ID '{}' does not exist", interface.subnet))
        })?;
    }
    Ok(zone)
}

fn volume(asked: &Parameters, number: usize, tags: &BTreeMap<String, String>) -> Result<Volume, Refusal> {
    let ebs = asked.at("Ebs").cloned().unwrap_or_default();
    let number_at = |key: &str| ebs.get(key).and_then(|value| value.parse::<u32>().ok());
    let kind = ebs.get("VolumeType").unwrap_or("gp2").to_owned();
    match (kind.as_str(), number_at("Iops")) {
        ("io1" | "io2", None) => {
            return Err(Refusal::new(
                "MissingParameter",
                format!("The parameter iops must be specified for {kind} volumes."),
            ));
        }
        ("gp2" | "st1" | "sc1" | "standard", Some(_)) => {
            let message = format!("The parameter iops is not supported for {kind} volumes.");
            return Err(Refusal::new("InvalidParameterCombination", message));
        }
        _ => {}
    }
    Ok(Volume {
        id: format!("vol-{number:017x}"),
        device: asked.get("DeviceName").unwrap_or_default().to_owned(),
        kind,
        size: number_at("VolumeSize").unwrap_or(8),
        iops: number_at("Iops"),
        throughput: number_at("Throughput"),
        encrypted: ebs.get("Encrypted") == Some("true"),
        delete_on_termination: ebs.get("DeleteOnTermination") != Some("false"),
        tags: tags.clone(),
    })
}

/// The tags that a launch gives to resources of this type.
fn tags_for(resource: &str, wanted: &Parameters) -> BTreeMap<String, String> {
    let specifications = wanted.list("TagSpecification");
    let of_type = specifications.into_iter().filter(|one| one.get("ResourceType") == Some(resource));
    of_type.flat_map(|one| pairs_of(one, "Tag")).collect()
}

/// The tags in a list.
pub(super) fn pairs_of(holder: &Parameters, list: &str) -> Vec<(String, String)> {
    let pair = |tag: &Parameters| {
        (tag.get("Key").unwrap_or_default().to_owned(), tag.get("Value").unwrap_or_default().to_owned())
    };
    holder.list(list).into_iter().map(pair).collect()
}
