//! What is there from the start: a Secret, two classes and a pool of three machines.

use anyhow::Context;
use api::{MachineClass, MachineDeployment};
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use runtime::client::Api;

use crate::demo::objects::{self, read};

/// The namespace that kubectl looks at when it is not told another.
pub(super) const NAMESPACE: &str = "default";
/// The MachineDeployment.
pub(super) use crate::demo::objects::POOL;

/// The class the pool begins with, and one to roll it to.
const CLASSES: [&str; 2] = ["small", "large"];
const MACHINES: usize = 3;

/// Makes all of it.
pub(super) async fn install(client: &kube::Client) -> anyhow::Result<()> {
    let make = PostParams::default();
    let secret: Secret = read(objects::secret())?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    secrets.create(&make, &secret).await.context("failed to create the sample Secret")?;
    let classes: Api<MachineClass> = Api::namespaced(client.clone(), NAMESPACE);
    for name in CLASSES {
        let class: MachineClass = read(objects::class(name, NAMESPACE))?;
        classes.create(&make, &class).await.context("failed to create a sample MachineClass")?;
    }
    let [first, _] = CLASSES;
    let pool: MachineDeployment = read(objects::pool(MACHINES, first))?;
    let pools: Api<MachineDeployment> = Api::namespaced(client.clone(), NAMESPACE);
    pools.create(&make, &pool).await.context("failed to create the sample MachineDeployment")?;
    Ok(())
}
