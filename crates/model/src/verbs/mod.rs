//! Verbs objects and their rules.
pub mod api;
