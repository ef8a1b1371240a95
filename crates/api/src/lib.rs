//! The Machine API: kinds, well-known strings, error codes, validation, and views of Kubernetes kinds.
//!
//! This crate defines the four kinds of the group `machine.sapcloud.io`, all well-known strings ([`names`]), the texts of
//! statuses and Events ([`texts`]), the error codes of drivers ([`Code`]), and the fields of Kubernetes kinds that the
//! controllers use ([`view`]). JSON is compatible with Machine Controller Manager (MCM). Decoding is lenient: null, missing and
//! unknown keys, and unusual durations and words do not make an object undecodable. Encoding is lossless: values that were not
//! changed are written as they were read.
//!
//! No clock, no client, no I/O: the planners (`planner`) consist of pure functions on these types.

mod code;
mod condition;
pub mod crd;
pub mod deletion;
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
pub mod texts;
pub mod validation;
pub mod view;
mod vocabulary;

pub use code::{Code, CodedText};
pub use condition::{MachineDeploymentCondition, MachineSetCondition, NodeCondition};
pub use equality::semantically_equal;
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
    Rounding, SelectorError, SelectorTextError, SmallMap, SpecDuration, Text, TextMap, Time, Uid, merge, record, time,
    wire,
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
