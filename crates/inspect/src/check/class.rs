//! Checks MachineClasses and their Secrets.

use api::names::secrets::USER_DATA;
use api::{Object, validation};

use super::{Findings, References};
use crate::snapshot::Secret;

pub(super) fn check(found: &mut Findings<'_>) {
    let snapshot = found.input.snapshot;
    for class in &snapshot.classes.readable {
        let object = format!("machineclass/{}", class.name());
        found.add_errors(&object, &validation::machine_class(class));
        if class.provider.is_empty() {
            let problem = "no driver serves a MachineClass without a provider";
            found.add(&object, "provider", problem, "set the name of the provider, for example AWS");
        }
        if class.secret_ref.is_none() && class.credentials_secret_ref.is_none() {
            let problem = "no Secret is set, so there is no user data and no Machine can be created";
            found.add(&object, "secretRef", problem, "set a Secret with the key userData");
            continue;
        }
        let mut all_known = true;
        let mut has_user_data = false;
        for (field, reference) in
            [("secretRef", &class.secret_ref), ("credentialsSecretRef", &class.credentials_secret_ref)]
        {
            let Some(reference) = reference else { continue };
            if reference.name.is_empty() {
                found.add(&object, &format!("{field}.name"), "the name is empty", "set the name of the Secret");
                continue;
            }
            let namespace = if reference.namespace.is_empty() { class.namespace() } else { &reference.namespace };
            let key = format!("{namespace}/{}", reference.name);
            let own = class.namespace();
            if namespace != own && !own.is_empty() {
                let problem = format!("Secret {key} is not read: only Secrets in namespace {own} are read");
                let fix = format!("create the Secret in namespace {own} and set this namespace");
                found.add(&object, &format!("{field}.namespace"), problem, fix);
                all_known = false; // already reported
                continue;
            }
            match (snapshot.secrets.get(&key), found.input.references) {
                (Some(Secret::Keys(keys)), _) => has_user_data |= keys.iter().any(|key| key == USER_DATA),
                (Some(Secret::Missing), References::Known) => {
                    let fix = format!("create Secret {key}, or set another one");
                    found.add(&object, field, format!("Secret {key} does not exist"), fix);
                    all_known = false; // already reported
                }
                (Some(Secret::NotRead(_) | Secret::Missing) | None, _) => {
                    found.not_checked(format!("the contents of Secret {key}"));
                    all_known = false;
                }
            }
        }
        if all_known && !has_user_data {
            let problem = "no Secret of the MachineClass has the key userData, so no Machine can be created";
            found.add(&object, "secretRef", problem, "add the key userData to the Secret");
        }
    }
}
