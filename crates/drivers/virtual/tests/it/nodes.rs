//! Node life, against the API server in memory.
