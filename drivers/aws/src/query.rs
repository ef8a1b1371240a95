//! Requests of the EC2 Query protocol: an action and flat, form-encoded parameters.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters outside this set are not percent-encoded (RFC 3986).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// API versions of the two services.
const EC2_VERSION: &str = "2016-11-15";
const STS_VERSION: &str = "2011-06-15";

/// An action with its parameters. `Debug` omits the values, because they include user data.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Query {
    action: &'static str,
    version: &'static str,
    parameters: Vec<(String, String)>,
}

impl Query {
    pub(crate) fn ec2(action: &'static str) -> Self {
        Self { action, version: EC2_VERSION, parameters: Vec::new() }
    }

    pub(crate) fn sts(action: &'static str) -> Self {
        Self { action, version: STS_VERSION, parameters: Vec::new() }
    }

    pub(crate) fn action(&self) -> &'static str {
        self.action
    }

    /// Returns whether the action changes nothing.
    pub(crate) fn is_read(&self) -> bool {
        self.action.starts_with("Describe")
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers pass strings and numbers")]
    pub(crate) fn set(&mut self, name: impl Into<String>, value: impl ToString) {
        self.parameters.push((name.into(), value.to_string()));
    }

    /// Sets the parameter if there is a value.
    pub(crate) fn set_some(&mut self, name: impl Into<String>, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Sets the parameter unless the value is empty: EC2 rejects an empty enum value and uses the default for an absent
    /// one.
    pub(crate) fn set_text(&mut self, name: impl Into<String>, value: &str) {
        if !value.is_empty() {
            self.set(name, value);
        }
    }

    /// Sets `<name>.1`, `<name>.2`, …
    pub(crate) fn set_list(&mut self, name: &str, values: impl IntoIterator<Item = impl ToString>) {
        for (at, value) in values.into_iter().enumerate() {
            self.set(format!("{name}.{}", at + 1), value);
        }
    }

    /// Returns the same request for the page with this token.
    #[must_use]
    pub(crate) fn page(&self, token: Option<&str>) -> Self {
        let mut page = self.clone();
        page.set_some("NextToken", token);
        page
    }

    pub(crate) fn encode(&self) -> String {
        let mut form = format!("Action={}&Version={}", self.action, self.version);
        for (name, value) in &self.parameters {
            form.push('&');
            form.extend(utf8_percent_encode(name, ENCODED));
            form.push('=');
            form.extend(utf8_percent_encode(value, ENCODED));
        }
        form
    }

    #[cfg(test)]
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    #[cfg(test)]
    pub(crate) fn names(&self) -> Vec<&str> {
        self.parameters.iter().map(|(key, _)| key.as_str()).collect()
    }
}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.parameters.iter().map(|(name, _)| name).collect();
        f.debug_struct("Query").field("action", &self.action).field("parameters", &names).finish_non_exhaustive()
    }
}

/// The states of an instance that is not terminated.
const LIVING: [&str; 4] = ["pending", "running", "stopping", "stopped"];

/// A query and the number of its filters.
struct Filters(Query, usize);

impl Filters {
    fn add(&mut self, name: &str, values: &[&str]) {
        self.1 += 1;
        self.0.set(format!("Filter.{}.Name", self.1), name);
        self.0.set_list(&format!("Filter.{}.Value", self.1), values);
    }
}

/// Returns the query for all live instances of a cluster, or for those of one machine.
pub(crate) fn instances_by_tags(cluster_tags: &driver_common::owned::ClusterTags, machine: Option<&str>) -> Query {
    let mut filters = Filters(Query::ec2("DescribeInstances"), 0);
    if let Some(machine) = machine {
        filters.add("tag:Name", &[machine]);
    }
    filters.add("tag-key", &[&cluster_tags.role]);
    filters.add("tag-key", &[&cluster_tags.cluster]);
    filters.add("instance-state-name", &LIVING);
    let Filters(mut query, _) = filters;
    query.set("MaxResults", 1000);
    query
}

pub(crate) fn instances_by_id(id: &str) -> Query {
    let mut query = Query::ec2("DescribeInstances");
    query.set_list("InstanceId", [id]);
    query
}

/// Returns the query for the instances of a client token, in any state.
pub(crate) fn instances_by_client_token(token: &str) -> Query {
    let mut filters = Filters(Query::ec2("DescribeInstances"), 0);
    filters.add("client-token", &[token]);
    filters.0
}

pub(crate) fn images(ami: &str) -> Query {
    let mut query = Query::ec2("DescribeImages");
    query.set_list("ImageId", [ami]);
    query
}

pub(crate) fn terminate(ids: &[&str]) -> Query {
    let mut query = Query::ec2("TerminateInstances");
    query.set_list("InstanceId", ids);
    query
}

pub(crate) fn disable_source_dest_check(interface: &str) -> Query {
    let mut query = Query::ec2("ModifyNetworkInterfaceAttribute");
    query.set("NetworkInterfaceId", interface);
    query.set("SourceDestCheck.Value", false);
    query
}

pub(crate) fn assign_ipv6_prefixes(interface: &str, count: i32) -> Query {
    let mut query = Query::ec2("AssignIpv6Addresses");
    query.set("NetworkInterfaceId", interface);
    query.set("Ipv6PrefixCount", count);
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_encoding_keeps_a_plus_sign() {
        let mut query = Query::ec2("X");
        query.set("UserData", "a+b/c= d&e~");
        assert_eq!(query.encode(), "Action=X&Version=2016-11-15&UserData=a%2Bb%2Fc%3D%20d%26e~");
    }

    /// Shows AWS-11.
    #[test]
    fn debug_output_of_a_query_contains_no_values() {
        let mut query = Query::ec2("RunInstances");
        query.set("UserData", "aHVudGVyMg==");
        let shown = format!("{query:?}");
        assert!(shown.contains("UserData") && !shown.contains("aHVu"), "{shown}");
    }

    #[test]
    fn instances_are_filtered_by_name_both_tags_and_state() {
        let cluster_tags = driver_common::owned::ClusterTags {
            cluster: "kubernetes.io/cluster/c".into(),
            role: "kubernetes.io/role/n".into(),
        };
        let form = instances_by_tags(&cluster_tags, Some("m-1")).page(Some("p2")).encode();
        assert_eq!(
            form,
            "Action=DescribeInstances&Version=2016-11-15&Filter.1.Name=tag%3AName&Filter.1.Value.1=m-1&Filter.2.Name=tag-key\
             &Filter.2.Value.1=kubernetes.io%2Frole%2Fn&Filter.3.Name=tag-key&Filter.3.Value.1=kubernetes.io%2Fcluster%2Fc\
             &Filter.4.Name=instance-state-name&Filter.4.Value.1=pending&Filter.4.Value.2=running&Filter.4.Value.3=stopping\
             &Filter.4.Value.4=stopped&MaxResults=1000&NextToken=p2"
        );
    }

    #[test]
    fn other_requests_use_the_parameters_of_the_ec2_model() {
        for (query, form) in [
            (instances_by_id("i-1"), "Action=DescribeInstances&Version=2016-11-15&InstanceId.1=i-1"),
            (images("ami-1"), "Action=DescribeImages&Version=2016-11-15&ImageId.1=ami-1"),
            (
                terminate(&["i-1", "i-2"]),
                "Action=TerminateInstances&Version=2016-11-15&InstanceId.1=i-1&InstanceId.2=i-2",
            ),
            (
                disable_source_dest_check("eni-1"),
                "Action=ModifyNetworkInterfaceAttribute&Version=2016-11-15&NetworkInterfaceId=eni-1&SourceDestCheck.Value=false",
            ),
            (
                assign_ipv6_prefixes("eni-1", 2),
                "Action=AssignIpv6Addresses&Version=2016-11-15&NetworkInterfaceId=eni-1&Ipv6PrefixCount=2",
            ),
        ] {
            assert_eq!(query.encode(), form);
        }
    }
}
