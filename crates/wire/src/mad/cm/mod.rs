//! Messages of communication management (IBTA 12.6, 12.11).

mod alternate;
mod codes;
mod connect;
mod disconnect;
mod sidr;

pub use alternate::{ApStatus, Apr, Lap};
pub use codes::{CmMad, CmMessage, CmServiceType, RejectReason, SidrStatus};
pub use connect::{CmPath, Rej, Rep, Req};
pub use disconnect::{Drep, Dreq, Mra, Rtu};
pub use sidr::{SidrRep, SidrReq};
