//! A plan in words.

use super::{Action, ConnectionPlan, Flaw, Message, Operation, Plan, Step};
use std::fmt;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "fabric file:")?;
        for line in self.fabric.text().lines().filter(|line| !line.is_empty()) {
            writeln!(f, "    {line}")?;
        }
        writeln!(f, "limits of parts: {:?}", self.fabric.tweaks)?;
        for (number, process) in self.processes.iter().enumerate() {
            let shared = if process.shares_receives { ", with a shared receive queue" } else { "" };
            writeln!(f, "process {number} on h{}/hca{}{shared}", process.host, process.hca)?;
        }
        for (number, connection) in self.connections.iter().enumerate() {
            writeln!(f, "connection {number}: {connection}")?;
        }
        if self.loss_ppm > 0 {
            writeln!(f, "HCAs lose {} packets in a million", self.loss_ppm)?;
        }
        for fault in &self.faults {
            writeln!(f, "at {} ns: {:?}", fault.at.as_nanos(), fault.kind)?;
        }
        let mut actions: Vec<&Action> = self.actions.iter().collect();
        actions.sort_by_key(|action| action.at_nanos);
        for action in actions {
            writeln!(f, "at {} ns: {}", action.at_nanos, action.step)?;
        }
        Ok(())
    }
}

impl fmt::Display for ConnectionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = self.ends;
        write!(f, "{:?} between processes {a} and {b}, MTU {}, service level {}", self.transport, self.mtu_bytes, self.service_level)?;
        write!(f, ", timeout {}, retries {}", self.ack_timeout, self.retry_count)?;
        write!(f, ", RNR retries {}, RNR timer {}", self.rnr_retry, self.rnr_timer)?;
        write!(f, ", {} reads at a time, {} sends at a time", self.rd_atomic, self.send_depth)?;
        write!(f, "{}", if self.signals_all { ", signals all" } else { "" })?;
        for (side, receives) in self.receives.iter().enumerate() {
            write!(f, "; end {side} holds {} receives of {} bytes", receives.depth, receives.len_bytes)?;
            write!(f, " in {} pieces, from {} ns on, {} ns late", receives.pieces, receives.from_nanos, receives.lag_nanos)?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Post { end, message } => write!(f, "end {} of connection {} posts {message}", end.side, end.connection),
            Self::Deregister { process, region } => write!(f, "process {process} deregisters region {region}"),
            Self::Reconnect { connection } => write!(f, "connection {connection} is reset and connected again"),
            Self::Drain { end } => write!(f, "end {} of connection {} goes to SQD", end.side, end.connection),
            Self::Resume { end } => write!(f, "end {} of connection {} goes back to RTS", end.side, end.connection),
            Self::Break { end } => write!(f, "end {} of connection {} goes to the error state", end.side, end.connection),
            Self::Destroy { end } => write!(f, "end {} of connection {} is destroyed", end.side, end.connection),
            Self::Kill { process } => write!(f, "process {process} dies"),
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operation {
            Operation::Write { region } => write!(f, "a write to region {region}")?,
            Operation::Send => write!(f, "a send")?,
            Operation::Read => write!(f, "a read")?,
            Operation::ReadBack => write!(f, "a read of the last write")?,
            Operation::FetchAdd => write!(f, "a fetch and add")?,
            Operation::CompareSwap => write!(f, "a compare and swap")?,
            Operation::Bind { region } => write!(f, "a bind of a window to region {region}")?,
            Operation::WriteWindow => write!(f, "a write through the peer's window")?,
            Operation::Invalidate => write!(f, "an invalidation of its window")?,
            Operation::SendInvalidate => write!(f, "a send that invalidates the peer's window")?,
            Operation::AtomicWrite => write!(f, "an atomic write")?,
        }
        write!(f, " of {} bytes in {} pieces", self.len_bytes, self.pieces)?;
        let flags = [
            (self.signaled, "signaled"),
            (self.solicited, "solicited"),
            (self.fence, "fence"),
            (self.inline, "inline"),
            (self.immediate, "immediate"),
        ];
        match self.flaw {
            Flaw::None => Ok(()),
            Flaw::LocalKey => write!(f, ", with an unknown local key"),
            Flaw::RemoteKey => write!(f, ", with an unknown remote key"),
            Flaw::Length => write!(f, ", longer than any receive"),
        }?;
        flags.iter().filter(|(on, _)| *on).try_for_each(|(_, name)| write!(f, ", {name}"))
    }
}
