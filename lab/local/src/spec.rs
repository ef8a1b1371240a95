//! The provider spec of a MachineClass.

use api::names::secrets::USER_DATA;
use api::view::SecretData;
use api::{Machine, MachineClass, Object as _};
use driver::DriverError;
use driver_common::fault::Faults;
use driver_common::spec::Object;

/// The value of `provider` in MachineClasses of this driver.
pub const PROVIDER: &str = "local";

/// The configuration of a machine and its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) image: String,
    /// Calico's address pools.
    pub(crate) pool_v4: Option<String>,
    pub(crate) pool_v6: Option<String>,
    /// The namespace of the pods, if the class sets one.
    namespace: Option<String>,
}

impl Spec {
    /// Decodes a MachineClass. All errors are reported together.
    pub(crate) fn decode(class: &MachineClass, faults: Faults) -> Result<Self, DriverError> {
        driver::check_provider(PROVIDER, class)?;
        let mut faults = faults;
        let object = Object::new(&class.provider_spec, "providerSpec", &mut faults);
        let mut text = |key: &str| object.text(key, &mut faults).filter(|text| !text.is_empty());
        let image = text("image");
        let spec = Self {
            pool_v4: text("ipPoolNameV4"),
            pool_v6: text("ipPoolNameV6"),
            namespace: text("namespace"),
            image: image.clone().unwrap_or_default(),
        };
        if image.is_none() {
            faults.required(object.path("image"), "the image of machine pods");
        }
        faults.or("", spec)
    }

    /// Returns the namespace of a machine's pod. A request for an orphan VM has no namespace of the Machine.
    pub(crate) fn namespace<'a>(&'a self, machine: Option<&'a Machine>, class: &'a MachineClass) -> &'a str {
        let of_machine = machine.map(api::Object::namespace).filter(|namespace| !namespace.is_empty());
        self.namespace.as_deref().or(of_machine).unwrap_or(class.namespace())
    }
}

/// Returns the user data. It may be empty, but must exist.
pub(crate) fn user_data<'a>(secret: &'a SecretData, faults: &mut Faults) -> &'a [u8] {
    let data = secret.get(USER_DATA);
    if data.is_none() {
        faults.required("secretRef.userData", "the program that a machine runs when it boots");
    }
    data.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn class(spec: Value) -> MachineClass {
        let mut class = MachineClass { provider: PROVIDER.into(), provider_spec: spec, ..MachineClass::default() };
        class.metadata.namespace = "of-class".into();
        class
    }

    /// Shows HST-27.
    #[rstest]
    #[case::said(json!({ "image": "i", "namespace": "said" }), "of-machine", "said")]
    #[case::first_generation(json!({ "image": "i" }), "of-machine", "of-machine")]
    #[case::an_orphan(json!({ "image": "i" }), "", "of-class")]
    fn the_namespace_is_that_of_the_class_or_the_machine(
        #[case] spec: Value,
        #[case] of_machine: &str,
        #[case] expected: &str,
    ) {
        let mut machine = Machine::default();
        machine.metadata.namespace = of_machine.into();
        let class = class(spec);
        let spec = Spec::decode(&class, Faults::default()).unwrap();
        assert_eq!(spec.namespace(Some(&machine), &class), expected);
    }

    /// Shows OPR-20.
    #[test]
    fn all_errors_in_a_class_are_reported_together() {
        let mut faults = Faults::default();
        user_data(&SecretData::default(), &mut faults);
        let error =
            Spec::decode(&class(json!({ "apiVersion": "mcm.gardener.cloud/v1alpha1", "namespace": 1 })), faults)
                .unwrap_err();
        for part in [
            "secretRef.userData: Required value",
            "providerSpec.image: Required value",
            "providerSpec.namespace: Invalid value: 1",
        ] {
            assert!(error.message().contains(part), "{error}");
        }
    }

    #[test]
    fn user_data_may_be_empty() {
        let mut faults = Faults::default();
        let secret: SecretData = [(USER_DATA, Vec::new())].into_iter().collect();
        assert_eq!(user_data(&secret, &mut faults), b"");
        assert!(faults.is_empty());
    }
}
