//! The machine planner against tables, and against a fixture in which its steps are carried out.

mod absence;
mod creation;
mod deletion;
mod drain;
mod drain_in_place;
mod fixture;
mod health;
mod in_place;
mod joining;
mod keeping;
mod limiter;
mod node;
mod outages;
mod ownership;
mod preservation;
mod promises;
mod shared_vm;
mod stages;
