//! Captures of packets: one at a time, by the command line.

use crate::engine::Engine;
use serde_json::{Value, json};
use softband_fabric::PacketSink;
use softband_spec::{FabricSpec, PortRef};
use std::fs::File;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Ports of a capture, all ports without a list, and the sink of its packets.
pub type Opened = (Option<Vec<PortRef>>, Box<dyn PacketSink>);
/// Begins the file of a capture of the ports with these names. An error is a message for the user.
pub type CaptureOpener = Box<dyn Fn(&FabricSpec, File, &[&str]) -> Result<Opened, String>>;

/// The captures of a fabric that stays.
#[derive(Default)]
pub(super) struct Captures {
    opener: Option<CaptureOpener>,
    /// Process for which the present capture began.
    owner: Option<i32>,
}

impl Engine {
    /// Captures the packets of the fabric from now on: see
    /// [`World::capture`](softband_fabric::World::capture).
    pub fn capture(&mut self, ports: Option<&[PortRef]>, sink: Box<dyn PacketSink>) {
        self.captures.owner = i32::try_from(std::process::id()).ok();
        self.world.capture(ports, sink);
    }

    /// Ends the capture, if any.
    pub fn end_capture(&mut self) {
        self.captures.owner = None;
        self.world.end_capture();
    }

    /// Lets commands capture packets from now on.
    pub fn offer_captures(&mut self, opener: CaptureOpener) {
        self.captures.opener = Some(opener);
    }

    /// Returns the date of the engine's start by the machine's clock, since 1970. In wall pace it is
    /// the World's time zero.
    pub fn started_at(&self) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(self.scheduler.elapsed())
    }

    /// Begins or ends the capture of the process `pid`.
    pub(super) fn capture_for(&mut self, padded: &[u8], pid: i32) -> (i32, u64, Value) {
        let text = String::from_utf8_lossy(padded.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
        if self.captures.owner.is_some_and(|owner| owner != pid && is_alive(owner)) {
            return (libc::EBUSY, 0, json!("another capture of the fabric is under way"));
        }
        self.end_capture();
        if text.is_empty() {
            return (0, 0, Value::Null);
        }
        match self.begin_for(&text, pid) {
            Ok(()) => (0, 0, Value::Null),
            Err(why) => (libc::EINVAL, 0, json!(why)),
        }
    }

    fn begin_for(&mut self, text: &str, pid: i32) -> Result<(), String> {
        if crate::procfs::is_hidden(pid) {
            return Err("a shared fabric captures by `softband up --capture` alone: the engine does not see the caller's files".to_owned());
        }
        let mut words = text.split(' ');
        let descriptor: u32 = words.next().and_then(|word| word.parse().ok()).ok_or("the command names no descriptor")?;
        let opener = self.captures.opener.as_ref().ok_or("a run takes no captures: use its option --capture")?;
        // The file is open in the caller, so the caller has checked names and rights.
        let path = format!("/proc/{pid}/fd/{descriptor}");
        // A pipe without a reader would hold up the engine, and with it all programs.
        if !std::fs::metadata(&path).is_ok_and(|file| file.is_file()) {
            return Err("a fabric that is up captures into regular files only: name another file".to_owned());
        }
        let file = File::options().write(true).open(path);
        let file = file.map_err(|error| format!("the engine cannot write the file: {error}"))?;
        let (ports, sink) = opener(self.world.spec(), file, &words.collect::<Vec<_>>())?;
        self.world.capture(ports.as_deref(), sink);
        self.captures.owner = Some(pid);
        Ok(())
    }
}

fn is_alive(pid: i32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}
