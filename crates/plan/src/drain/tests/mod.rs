//! Drains as tables, stories and promises.
