//! EC2 as a cloud of Millwright.
