//! The sample objects: a Secret, two MachineClasses and a pool.

use std::time::Duration;

use anyhow::Context;
use api::{MachineClass, MachineDeployment};
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use runtime::client::Api;

use crate::demo::objects::{self, read};

/// The default namespace of kubectl.
pub(super) const NAMESPACE: &str = "default";
/// The MachineDeployment.
pub(super) use crate::demo::objects::POOL;

/// The initial MachineClass of the pool, and another one for a rollout.
const CLASSES: [&str; 2] = ["small", "large"];

/// Creates the sample objects.
pub(super) async fn install(client: &kube::Client, machines: u32, boot_time: Duration) -> anyhow::Result<()> {
    let make = PostParams::default();
    let secret: Secret = read(objects::secret())?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    secrets.create(&make, &secret).await.context("failed to create the sample Secret")?;
    let classes: Api<MachineClass> = Api::namespaced(client.clone(), NAMESPACE);
    for name in CLASSES {
        let class: MachineClass = read(objects::class(name, NAMESPACE, boot_time))?;
        classes.create(&make, &class).await.context("failed to create a sample MachineClass")?;
    }
    let [first, _] = CLASSES;
    let pool: MachineDeployment = read(objects::pool(machines, first))?;
    let pools: Api<MachineDeployment> = Api::namespaced(client.clone(), NAMESPACE);
    pools.create(&make, &pool).await.context("failed to create the sample MachineDeployment")?;
    Ok(())
}
