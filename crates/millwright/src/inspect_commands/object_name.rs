//! Parses object names: `kind/name`, or two words.

use anyhow::{anyhow, bail};
use inspect::explain::Explained;

/// Parses kind and name. The name alone is sufficient where only one kind is possible.
pub(super) fn object(words: &[String], alone: Option<Explained>) -> anyhow::Result<(Explained, String)> {
    let (kind, name) = match words {
        [one] => match (one.split_once('/'), alone) {
            (Some((kind, name)), _) => (kind, name),
            (None, Some(kind)) => (kind.word(), one.as_str()),
            (None, None) => {
                bail!("{one:?} has no kind: use machine/{one}, machineset/{one} or machinedeployment/{one}")
            }
        },
        [kind, name] => (kind.as_str(), name.as_str()),
        _ => bail!("the object is missing: use KIND/NAME"),
    };
    // kubectl also accepts the group after the kind.
    let word = kind.split('.').next().unwrap_or_default();
    let known = Explained::named(word).filter(|known| alone.is_none_or(|wanted| wanted == *known));
    let known = known.ok_or_else(|| {
        let kinds = alone.map_or("machine, machineset or machinedeployment", Explained::word);
        anyhow!("{kind:?} is not a supported kind: use {kinds}")
    })?;
    if name.is_empty() {
        bail!("the name is missing: use {}/NAME", known.word());
    }
    Ok((known, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(&["machine/a"], Explained::Machine)]
    #[case(&["mc/a"], Explained::Machine)]
    #[case(&["machinesets", "a"], Explained::MachineSet)]
    #[case(&["machinedeployments.machine.sapcloud.io/a"], Explained::MachineDeployment)]
    fn object_names_are_parsed_as_in_kubectl(#[case] words: &[&str], #[case] kind: Explained) {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        assert_eq!(object(&words, None).unwrap(), (kind, "a".to_owned()));
    }

    /// Shows OPR-8.
    #[rstest]
    #[case("a", None, "has no kind")]
    #[case("pod/a", None, "not a supported kind")]
    #[case("machine/", None, "the name is missing")]
    #[case("machine/a", Some(Explained::MachineDeployment), "use machinedeployment")]
    fn invalid_object_name_is_reported_with_a_fix(
        #[case] word: &str,
        #[case] alone: Option<Explained>,
        #[case] expected: &str,
    ) {
        let error = object(&[word.to_owned()], alone).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn name_alone_is_sufficient_if_only_one_kind_is_possible() {
        let found = object(&["pool".to_owned()], Some(Explained::MachineDeployment)).unwrap();
        assert_eq!(found, (Explained::MachineDeployment, "pool".to_owned()));
    }
}
