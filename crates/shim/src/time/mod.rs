//! Clocks, sleeps and timers.

pub mod alarm;
pub mod clock;
pub mod computation;
pub mod pace;
pub mod sleep;
pub mod timerfd;
