//! Objects as people name them: `kind/name`, or two words.

use anyhow::{anyhow, bail};
use inspect::explain::Explained;

/// Kind and name. A name alone is allowed where only one kind is meant.
pub(super) fn object(words: &[String], alone: Option<Explained>) -> anyhow::Result<(Explained, String)> {
    let (kind, name) = match words {
        [one] => match (one.split_once('/'), alone) {
            (Some((kind, name)), _) => (kind, name),
            (None, Some(kind)) => (kind.word(), one.as_str()),
            (None, None) => {
                bail!("{one:?} names no kind: say machine/{one}, machineset/{one} or machinedeployment/{one}")
            }
        },
        [kind, name] => (kind.as_str(), name.as_str()),
        _ => bail!("say which object: KIND/NAME"),
    };
    // kubectl also takes the group behind the kind.
    let word = kind.split('.').next().unwrap_or_default();
    let known = Explained::named(word).filter(|known| alone.is_none_or(|wanted| wanted == *known));
    let known = known.ok_or_else(|| {
        let kinds = alone.map_or("machine, machineset or machinedeployment", Explained::word);
        anyhow!("{kind:?} is not a kind that is known here: say {kinds}")
    })?;
    if name.is_empty() {
        bail!("the name is missing: say {}/NAME", known.word());
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
    fn an_object_is_named_as_with_kubectl(#[case] words: &[&str], #[case] kind: Explained) {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        assert_eq!(object(&words, None).unwrap(), (kind, "a".to_owned()));
    }

    /// Shows OPR-8.
    #[rstest]
    #[case("a", None, "names no kind")]
    #[case("pod/a", None, "not a kind that is known here")]
    #[case("machine/", None, "the name is missing")]
    #[case("machine/a", Some(Explained::MachineDeployment), "say machinedeployment")]
    fn what_cannot_be_meant_is_told_in_a_sentence(
        #[case] word: &str,
        #[case] alone: Option<Explained>,
        #[case] said: &str,
    ) {
        let error = object(&[word.to_owned()], alone).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }

    #[test]
    fn a_name_alone_is_enough_where_only_one_kind_is_meant() {
        let found = object(&["pool".to_owned()], Some(Explained::MachineDeployment)).unwrap();
        assert_eq!(found, (Explained::MachineDeployment, "pool".to_owned()));
    }
}
