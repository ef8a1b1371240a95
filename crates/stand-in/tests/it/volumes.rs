//! Volumes that follow their pods.
