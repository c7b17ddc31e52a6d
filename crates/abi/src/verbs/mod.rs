//! `infiniband/verbs.h`.

pub mod constants;
mod device;
mod domains;
mod kernel;
mod objects;
mod tables;
mod work;

pub use constants::*;
pub use device::*;
pub use domains::*;
pub use kernel::*;
pub use objects::*;
pub use tables::*;
pub use work::*;

#[allow(unused_qualifications)] // each module has its own
pub(crate) fn layouts() -> [&'static [(&'static str, usize)]; 7] {
    [constants::LAYOUT, device::LAYOUT, domains::LAYOUT, kernel::LAYOUT, objects::LAYOUT, tables::LAYOUT, work::LAYOUT]
}
