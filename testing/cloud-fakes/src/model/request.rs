//! Whether a request is one that AWS knows.

use super::shapes::{Kind, Problem, Protocol, Service, Shape, operation};
use crate::parameters::Parameters;

/// Checks that every parameter exists and has the right shape, and that none is missing. `Action` and `Version` may be among the
/// parameters; then they have to be right, too.
pub fn check_request<K: AsRef<str>, V: AsRef<str>>(action: &str, pairs: &[(K, V)]) -> Result<(), Vec<Problem>> {
    let (service, described) = operation(action).map_err(|problem| vec![problem])?;
    let mut problems = Vec::new();
    let mut rest = Vec::new();
    for (key, value) in pairs.iter().map(|(key, value)| (key.as_ref(), value.as_ref())) {
        match key {
            "Action" | "Version" => {
                let wanted = if key == "Action" { action } else { service.version.as_str() };
                if value != wanted {
                    problems.push(Problem::Type { key: key.to_owned(), wanted: wanted.to_owned() });
                }
            }
            _ => rest.push((key, value)),
        }
    }
    let parameters = Parameters::of(&rest);
    match described.input.as_deref().and_then(|input| service.shape(input)) {
        Some(shape) => structure(service, shape, &parameters, "", &mut problems),
        None => problems.extend(rest.iter().map(|(key, _)| Problem::Unknown((*key).to_owned()))),
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn structure(service: &Service, shape: &Shape, given: &Parameters, path: &str, problems: &mut Vec<Problem>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    for (key, child) in given.children() {
        let member = shape.members.iter().find(|(name, member)| service.key(name, member) == key);
        match member.and_then(|(_, member)| service.shape(&member.shape)) {
            Some(shape) => any(service, shape, child, &below(key), problems),
            None => problems.push(Problem::Unknown(below(key))),
        }
    }
    let missing = shape.required.iter().filter_map(|name| {
        let key = service.key(name, shape.members.get(name)?);
        given.at(&key).is_none().then(|| Problem::Missing(below(&key)))
    });
    problems.extend(missing);
}

fn any(service: &Service, shape: &Shape, given: &Parameters, path: &str, problems: &mut Vec<Problem>) {
    match shape.kind {
        Kind::Structure | Kind::List if given.value().is_some() => {
            problems
                .push(Problem::Type { key: path.to_owned(), wanted: "a structure or list, but a value".to_owned() });
        }
        Kind::Structure => structure(service, shape, given, path, problems),
        Kind::List => list(service, shape, given, path, problems),
        _ => scalar(shape, given, path, problems),
    }
}

fn list(service: &Service, shape: &Shape, given: &Parameters, path: &str, problems: &mut Vec<Problem>) {
    let Some(member) = &shape.member else { return };
    let (elements, path) = match service.protocol {
        Protocol::Ec2 => (Some(given), path.to_owned()),
        Protocol::Query if shape.flattened => (Some(given), path.to_owned()),
        Protocol::Query => {
            let word = member.element("member");
            problems.extend(
                given
                    .children()
                    .filter(|(key, _)| *key != word)
                    .map(|(key, _)| Problem::Unknown(format!("{path}.{key}"))),
            );
            (given.at(word), format!("{path}.{word}"))
        }
    };
    let Some((elements, inner)) = elements.zip(service.shape(&member.shape)) else { return };
    let numbers: Vec<Option<usize>> = elements.children().map(|(number, _)| number.parse().ok()).collect();
    // AWS reads a list until a number is missing.
    let complete = (1..=numbers.len()).all(|number| numbers.contains(&Some(number)));
    if !complete {
        problems.push(Problem::Type {
            key: path.clone(),
            wanted: "a list whose elements are numbered from one".to_owned(),
        });
    }
    for (number, element) in elements.children() {
        any(service, inner, element, &format!("{path}.{number}"), problems);
    }
}

fn scalar(shape: &Shape, given: &Parameters, path: &str, problems: &mut Vec<Problem>) {
    let wrong = |wanted: &str| Problem::Type { key: path.to_owned(), wanted: wanted.to_owned() };
    problems.extend(given.children().map(|(key, _)| Problem::Unknown(format!("{path}.{key}"))));
    let Some(value) = given.value() else { return };
    let fits = match shape.kind {
        Kind::Boolean => (matches!(value, "true" | "false"), "true or false".to_owned()),
        Kind::Integer => (value.parse::<i32>().is_ok(), "an integer".to_owned()),
        Kind::Long => (value.parse::<i64>().is_ok(), "an integer".to_owned()),
        Kind::Double | Kind::Float => (value.parse::<f64>().is_ok(), "a number".to_owned()),
        Kind::String if !shape.words.is_empty() => {
            (shape.words.iter().any(|word| word == value), format!("one of {}", shape.words.join(", ")))
        }
        Kind::String | Kind::Timestamp | Kind::Blob | Kind::Structure | Kind::List => (true, String::new()),
    };
    if !fits.0 {
        problems.push(wrong(&fits.1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const COUNTS: [(&str, &str); 2] = [("MinCount", "1"), ("MaxCount", "1")];

    #[test]
    fn a_request_that_aws_knows_passes() {
        let more = [
            ("Action", "RunInstances"),
            ("Version", "2016-11-15"),
            ("ClientToken", "t"),
            ("ImageId", "ami-1"),
            ("NetworkInterface.1.DeviceIndex", "0"),
            ("NetworkInterface.1.SecurityGroupId.1", "sg-1"),
            ("NetworkInterface.2.InterfaceType", "efa"),
            ("BlockDeviceMapping.1.Ebs.VolumeType", "io1"),
            ("BlockDeviceMapping.1.Ebs.Iops", "100"),
            ("TagSpecification.1.ResourceType", "instance"),
            ("TagSpecification.1.Tag.1.Key", "Name"),
            ("IamInstanceProfile.Name", "p"),
            ("InstanceType", "a-type-of-next-year.large"),
        ];
        assert_eq!(check_request("RunInstances", &[&COUNTS[..], &more].concat()), Ok(()));
        let filter = [("Filter.1.Name", "tag-key"), ("Filter.1.Value.1", "k"), ("MaxResults", "100")];
        assert_eq!(check_request("DescribeInstances", &filter), Ok(()));
        let role = [("RoleArn", "a"), ("RoleSessionName", "s"), ("TransitiveTagKeys.member.1", "k")];
        assert_eq!(check_request("AssumeRole", &role), Ok(()));
        assert_eq!(check_request("GetCallerIdentity", &[("Version", "2011-06-15")]), Ok(()));
    }

    /// Shows DRV-9.
    #[rstest]
    #[case::misspelled("ImageID", "ami-1", "ImageID is no parameter")]
    #[case::of_the_sdk("NetworkInterfaces.1.DeviceIndex", "0", "NetworkInterfaces is no parameter")]
    #[case::inside("NetworkInterface.1.Groups.1", "sg", "NetworkInterface.1.Groups is no parameter")]
    #[case::below_a_value("ImageId.1", "x", "ImageId.1 is no parameter")]
    #[case::no_integer("NetworkInterface.1.DeviceIndex", "first", "NetworkInterface.1.DeviceIndex is not an integer")]
    #[case::no_boolean("EbsOptimized", "yes", "EbsOptimized is not true or false")]
    #[case::empty_word("Placement.Tenancy", "", "Placement.Tenancy is not one of dedicated, default, host")]
    #[case::a_gap("SecurityGroupId.2", "sg", "SecurityGroupId is not a list whose elements are numbered from one")]
    #[case::no_list("SecurityGroupId", "sg", "SecurityGroupId is not a structure or list, but a value")]
    #[case::version("Version", "2015-01-01", "Version is not 2016-11-15")]
    fn what_aws_does_not_know_is_told(#[case] key: &str, #[case] value: &str, #[case] told: &str) {
        let problems = check_request("RunInstances", &[&COUNTS[..], &[(key, value)]].concat()).unwrap_err();
        assert_eq!(problems.iter().map(ToString::to_string).collect::<Vec<_>>(), [told]);
    }

    #[test]
    fn what_is_missing_is_told_all_at_once() {
        let problems = check_request("RunInstances", &[("ImageId", "ami-1")]).unwrap_err();
        assert_eq!(problems, ["MaxCount", "MinCount"].map(|key| Problem::Missing(key.to_owned())));
        let flat =
            check_request("AssumeRole", &[("RoleArn", "a"), ("RoleSessionName", "s"), ("TransitiveTagKeys.1", "k")]);
        assert_eq!(flat.unwrap_err(), [Problem::Unknown("TransitiveTagKeys.1".into())]);
        let nothing: [(&str, &str); 0] = [];
        assert_eq!(check_request("RunInstance", &nothing), Err(vec![Problem::UnknownAction("RunInstance".into())]));
    }
}
