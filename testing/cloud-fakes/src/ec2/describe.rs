//! `DescribeInstances` and `DescribeImages`.

use std::time::Duration;

use super::answer::Refusal;
use super::cloud::Cloud;
use super::filter::Filter;
use super::instance::Instance;
use super::shown;
use super::xml::{Element, set, text};
use crate::parameters::Parameters;

/// What AWS allows as the size of a page.
const PAGE: std::ops::RangeInclusive<usize> = 5..=1000;

impl Cloud {
    pub(super) fn describe_instances(&self, now: Duration, asked: &Parameters) -> Result<Vec<Element>, Refusal> {
        let ids = asked.values("InstanceId");
        let page = match asked.get("MaxResults").map(str::parse::<usize>) {
            Some(_) if !ids.is_empty() => {
                return Err(Refusal::new(
                    "InvalidParameterCombination",
                    "instance ids and MaxResults exclude each other",
                ));
            }
            Some(Ok(size)) if PAGE.contains(&size) => size,
            Some(_) => return Err(Refusal::new("InvalidParameterValue", "MaxResults is between 5 and 1000")),
            None => *PAGE.end(),
        };
        // What is not shown yet was made after this instant.
        let then = now.checked_sub(self.settings.shows_after);
        let shown = |instance: &&Instance| then.is_some_and(|then| instance.is_shown(then, now, &self.settings));
        for id in &ids {
            well_formed("InvalidInstanceID.Malformed", "i-", id)?;
            if !self.instances.iter().filter(shown).any(|instance| instance.id == *id) {
                return Err(unknown(id));
            }
        }
        let filters = asked.list("Filter").into_iter().map(Filter::read).collect::<Result<Vec<_>, _>>()?;
        let then = then.unwrap_or_default();
        let admitted = self.instances.iter().filter(shown).filter(|instance| {
            let by_id = ids.is_empty() || ids.contains(&instance.id.as_str());
            by_id && filters.iter().all(|filter| filter.admits(instance, then, &self.settings))
        });
        let first = match asked.get("NextToken") {
            Some(token) => read_token(token)?,
            None => 0,
        };
        let rest: Vec<&Instance> = admitted.skip(first).collect();
        let reservation = |instance: &&Instance| {
            vec![
                text("reservationId", instance.id.replacen("i-", "r-", 1)),
                text("ownerId", &self.settings.account),
                set("instancesSet", [shown::instance(instance, then, &self.settings)]),
            ]
        };
        let mut answer = vec![set("reservationSet", rest.iter().take(page).map(reservation))];
        if rest.len() > page {
            answer.push(text("nextToken", format!("page-from-{}", first + page)));
        }
        Ok(answer)
    }

    pub(super) fn describe_images(&self, asked: &Parameters) -> Result<Vec<Element>, Refusal> {
        let ids = asked.values("ImageId");
        for id in &ids {
            well_formed("InvalidAMIID.Malformed", "ami-", id)?;
            if !self.settings.images.iter().any(|image| image.id == *id) {
                return Err(Refusal::new("InvalidAMIID.NotFound", format!("The image id '[{id}]' does not exist")));
            }
        }
        let wanted = self.settings.images.iter().filter(|image| ids.is_empty() || ids.contains(&image.id.as_str()));
        let images = wanted.map(|image| {
            let mut shown = vec![
                text("imageId", &image.id),
                text("imageState", "available"),
                text("architecture", "x86_64"),
                text("rootDeviceType", "ebs"),
            ];
            if !image.root_device_name.is_empty() {
                shown.push(text("rootDeviceName", &image.root_device_name));
            }
            shown
        });
        Ok(vec![set("imagesSet", images)])
    }
}

pub(super) fn unknown(id: &str) -> Refusal {
    Refusal::new("InvalidInstanceID.NotFound", format!("The instance ID '{id}' does not exist"))
}

/// An id is its prefix and hexadecimal digits.
pub(super) fn well_formed(code: &str, prefix: &str, id: &str) -> Result<(), Refusal> {
    let digits = id.strip_prefix(prefix).unwrap_or_default();
    let good = digits.len() >= 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if good { Ok(()) } else { Err(Refusal::new(code, format!("Invalid id: \"{id}\""))) }
}

fn read_token(token: &str) -> Result<usize, Refusal> {
    let place = token.strip_prefix("page-from-").and_then(|place| place.parse().ok());
    place.ok_or_else(|| Refusal::new("InvalidNextToken", "no answer had this token"))
}
