//! What the runtime promises, tried from outside. One binary, because each one links kube.

// Under the name the rest of the workspace knows it by.
extern crate millwright_runtime as runtime;

mod client;
