//! A simulation tester. A seed gives a random fabric, random programs and random faults. An oracle
//! judges the run, and a failing plan shrinks by itself.
//!
//! Everything follows from the seed and the catalogue: no clock, no thread, no file. Two runs of a
//! seed have the same digest.
#![forbid(unsafe_code)]

mod campaign;
mod dice;
mod digest;
mod draw;
mod driver;
mod memory;
mod oracle;
pub mod plan;
mod sabotage;
mod shrink;
mod trial;

pub use campaign::{Campaign, Failure};
pub use digest::Digest;
pub use draw::plan_of;
pub use driver::Report;
pub use oracle::{Rule, Violation};
pub use plan::Plan;
pub use sabotage::Sabotage;
pub use shrink::{Shrunk, shrink};
pub use trial::{try_one_by_one, try_plan, try_with};
