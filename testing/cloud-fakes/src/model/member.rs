//! Whether an answer can hold what we read.

use super::shapes::{Kind, Problem, Protocol, operation};

/// Checks that the answer to an action has a member at this path, by the names of its elements:
/// `reservationSet.item.instancesSet.item.instanceId`. What stands around every answer (`<RunInstancesResponse>`, the id of the
/// request) is not part of the path.
pub fn check_member(action: &str, path: &str) -> Result<(), Problem> {
    let (service, described) = operation(action)?;
    let no_member = || Problem::NoMember(format!("{action}: {path}"));
    let mut shape = described.output.as_deref().and_then(|output| service.shape(output)).ok_or_else(no_member)?;
    let mut elements = path.split('.').peekable();
    if let Some(wrapper) = described.result_wrapper.as_deref() {
        elements.next_if_eq(&wrapper).ok_or_else(no_member)?;
    }
    for element in elements {
        let member = match shape.kind {
            Kind::Structure => {
                shape.members.iter().find(|(name, member)| member.element(name) == element).map(|(_, member)| member)
            }
            Kind::List => {
                let word = if service.protocol == Protocol::Ec2 { "item" } else { "member" };
                shape.member.as_ref().filter(|member| member.element(word) == element)
            }
            _ => None,
        };
        shape = member.and_then(|member| service.shape(&member.shape)).ok_or_else(no_member)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("DescribeInstances", "reservationSet.item.instancesSet.item.privateDnsName")]
    #[case(
        "DescribeInstances",
        "reservationSet.item.instancesSet.item.networkInterfaceSet.item.ipv6PrefixSet.item.ipv6Prefix"
    )]
    #[case("DescribeInstances", "nextToken")]
    #[case("RunInstances", "instancesSet.item.instanceState.name")]
    #[case("DescribeImages", "imagesSet.item.rootDeviceName")]
    #[case("TerminateInstances", "instancesSet.item.currentState.name")]
    #[case("AssumeRoleWithWebIdentity", "AssumeRoleWithWebIdentityResult.Credentials.SessionToken")]
    fn a_member_that_aws_sends_is_known(#[case] action: &str, #[case] path: &str) {
        assert_eq!(check_member(action, path), Ok(()));
    }

    #[rstest]
    #[case::of_the_sdk("DescribeInstances", "Reservations.item")]
    #[case::without_item("RunInstances", "instancesSet.instanceId")]
    #[case::below_a_value("RunInstances", "reservationId.value")]
    #[case::unwrapped("AssumeRole", "Credentials.SessionToken")]
    #[case::no_answer("CreateTags", "tagSet")]
    fn a_member_that_aws_never_sends_is_told(#[case] action: &str, #[case] path: &str) {
        assert_eq!(check_member(action, path), Err(Problem::NoMember(format!("{action}: {path}"))));
    }
}
