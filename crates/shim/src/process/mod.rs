//! Processes: fork, new images, children, and the machine that they see.

pub mod children;
pub mod environment;
pub mod exec;
pub mod fork;
pub mod machine;
pub mod machine_calls;
pub mod moving;
pub mod outside;
pub mod outsiders;
pub mod pid;
pub mod processor_set;
pub mod seccomp;
pub mod shell;
pub mod spawn;
pub mod tracing;
pub mod wait;
