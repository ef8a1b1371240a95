//! Tests of the Machine planner, by tables and in a fixture that executes its steps.

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
