//! The Machine API: kinds, names, codes, durations, validation, lean views.
//!
//! Everything that crosses a border of the program is defined here once: the four kinds of the group `machine.sapcloud.io`,
//! every well-known string ([`names`]), what a driver may answer ([`Code`]), and as much of Kubernetes' own kinds as we look
//! at ([`view`]). The form on the wire is the reference's; its quirks end at this border. Reading is liberal: nulls, missing
//! and unknown keys, odd durations and words never hide an object. Writing is faithful: what we did not change goes back as
//! it came.
//!
//! No clock, no client, no I/O: decisions (`plan`) are made of these types and stay pure.

mod code;
mod condition;
pub mod crd;
pub mod deletion;
pub mod descriptions;
mod equality;
mod ids;
pub mod lists;
mod machine;
mod machine_class;
mod machine_deployment;
mod machine_set;
pub mod names;
mod operation;
mod preservation;
pub mod printable;
mod template;
pub mod validation;
pub mod view;
mod vocabulary;

pub use code::{Code, CodedText};
pub use condition::{MachineDeploymentCondition, MachineSetCondition, NodeCondition};
pub use equality::same_meaning;
pub use ids::{MachineName, NodeName, ProviderId, VolumeId, VolumeName};
pub use machine::{CurrentStatus, Machine, MachineStatus, NodeAddress};
pub use machine_class::{ClassNodeTemplate, MachineClass, SecretRef};
pub use machine_deployment::{
    InPlaceUpdate, MachineDeployment, MachineDeploymentSpec, MachineDeploymentStatus, MachineDeploymentStrategy,
    RollbackConfig, RollingUpdate, UpdateLimits,
};
pub use machine_set::{MachineSet, MachineSetSpec, MachineSetStatus};
pub use meta::{
    DurationError, GoDuration, IntOrString, LabelSelector, Object, ObjectMeta, OwnerReference, Quantity, Requirement,
    Rounding, SelectorError, SelectorTextError, SmallMap, SpecDuration, Text, TextMap, Time, Uid, merge, record, wire,
};
pub use operation::{LastOperation, MachineSummary};
pub use preservation::Preservable;
pub use template::{
    ClassSpec, ConfigMapNodeConfigSource, MachineConfiguration, MachineSpec, MachineTemplateSpec, NodeConfigSource,
    NodeSpec, NodeTemplateSpec, Taint, TemplateMeta,
};
pub use view::{SecretContent, SecretData, SecretView};
pub use vocabulary::{
    ConditionStatus, MachinePhase, OperationState, OperationType, OrchestrationType, PodPhase, PreserveValue,
    StrategyType, TaintEffect, UpdateResult,
};
