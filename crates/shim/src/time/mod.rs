//! Clocks, sleeps and timers.

pub mod alarm;
pub mod clock;
pub mod pace;
pub mod sleep;
pub mod timerfd;
