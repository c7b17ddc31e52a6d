//! The daemon: a fabric that stays while programs come and go. The command line asks it for
//! tickets, faults, its status and its end.

use crate::control::remote::Pass;
use crate::control::tickets::Grant;
use crate::engine::Engine;
use crate::host::files::Files;
use crate::host::network;
use crate::host::ports::abi_lid;
use crate::process::launch::Program;
use crate::protocol::Caller;
use crate::realtime::fallbacks;
use crate::report::RunReport;
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use serde_json::{Value, json};
use softband_ipc::calls::{Name, Placement};
use softband_ipc::command::{Command, CommandReply, kind};
use softband_ipc::environment;
use softband_spec::HcaSpec;
use softband_types::{Gid, PortNumber};
use std::io::Write;
use std::mem::MaybeUninit;
use std::net::Ipv4Addr;

impl Engine {
    /// Serves programs that others start, until a command ends the fabric. Everything that belongs
    /// to the fabric has ended when this returns.
    ///
    /// # Panics
    /// Panics in simulated time: a program that starts at no certain moment has no place there.
    pub fn stay(&mut self) -> RunReport {
        assert!(self.scheduler.is_wall(), "a fabric stays in wall pace only");
        let hosts = 0..self.world.spec().hosts.len();
        self.control.give_passes();
        // A placeholder that never starts and never ends stands for all programs of a host.
        let standing = |host| Program { host, command: "exec".into(), arguments: Vec::new(), environment: Vec::new(), stdout: None, stderr: None };
        self.run(hosts.map(standing).collect())
    }

    pub(super) fn handle_command(&mut self, socket: &OwnedFd, pid: i32, command: &Command) {
        let (status, ticket, text) = match command.kind {
            _ if command.version != softband_ipc::VERSION => (libc::EPROTO, 0, Value::Null),
            kind::TICKET => self.pass_for(&command.argument, pid),
            kind::FAULT => self.fault(&command.argument),
            kind::CAPTURE => self.capture_for(&command.argument, pid),
            kind::STATUS => (0, 0, self.status()),
            kind::METRICS => (0, 0, self.metrics()),
            kind::DOWN => {
                self.scheduler.interrupt().raise();
                (0, 0, Value::Null)
            }
            _ => (libc::EINVAL, 0, Value::Null),
        };
        answer(socket, &CommandReply { version: softband_ipc::VERSION, status, ticket }, &text);
    }

    /// Adds a fault, given as words with blanks between them.
    fn fault(&mut self, padded: &[u8]) -> (i32, u64, Value) {
        let text = String::from_utf8_lossy(padded.split(|byte| *byte == 0).next().unwrap_or_default());
        match self.add_fault(&text.split(' ').collect::<Vec<_>>()) {
            Ok(()) => (0, 0, Value::Null),
            Err(why) => (libc::ENOENT, 0, json!(why)),
        }
    }

    /// Returns the pass that the process `pid` needs to become a program on a host.
    fn pass_for(&mut self, padded: &[u8], pid: i32) -> (i32, u64, Value) {
        let name = padded.split(|byte| *byte == 0).next().unwrap_or_default();
        let hosts: Vec<&str> = self.world.spec().hosts.iter().map(|host| host.name.as_str()).collect();
        let Some(host) = hosts.iter().position(|host| host.as_bytes() == name) else { return (libc::ENOENT, 0, json!(hosts)) };
        if self.world.is_host_dead(host) {
            return (libc::EHOSTDOWN, 0, Value::Null);
        }
        if !self.control.gives_passes() {
            return (libc::EOPNOTSUPP, 0, Value::Null);
        }
        let hosts = hosts.join(",");
        let Ok(ticket) = self.control.issue(Grant::Host { host, program: host, pid }) else { return (libc::EAGAIN, 0, Value::Null) };
        self.control.admission().note_pid(pid);
        let mut variables = vec![
            (environment::ENGINE.to_owned(), self.control.name().to_owned()),
            (environment::TICKET.to_owned(), environment::ticket_text(ticket)),
            (environment::HOST.to_owned(), self.world.spec().hosts[host].name.clone()),
            (environment::HOSTS.to_owned(), hosts),
        ];
        let files = self.files_variable(host);
        variables.extend(files.as_ref().and_then(|(_, folder)| Files::cache_variable(folder)));
        variables.extend(files);
        variables.push((environment::LIBRARIES.to_owned(), self.programs.libraries().directory.display().to_string()));
        // The caller puts its own preloaded libraries before ours.
        let library = |path: &std::path::Path| path.display().to_string();
        if self.programs.libraries().by_preload {
            variables.push(("LD_PRELOAD".to_owned(), library(&self.programs.libraries().preload)));
        }
        variables.push(("LD_LIBRARY_PATH".to_owned(), library(&self.programs.libraries().directory)));
        (0, ticket, json!(Pass { variables }))
    }

    /// Places the next image of a process of the fabric on the host of this name.
    pub(super) fn exec_on(&mut self, caller: Caller, name: &Name) -> Result<Placement, i32> {
        let name = name.bytes.get(..name.len as usize).ok_or(libc::EINVAL)?;
        let host = self.world.spec().hosts.iter().position(|host| host.name.as_bytes() == name).ok_or(libc::ENOENT)?;
        if self.world.is_host_dead(host) {
            return Err(libc::EHOSTDOWN);
        }
        let process = caller.process;
        let grant = if self.scheduler.is_wall() {
            // Here each image is a process of its own. The entry of a host in a persistent fabric
            // has the number of the host.
            let program = if self.control.gives_passes() { host } else { self.processes[process].program() };
            Grant::Host { host, program, pid: self.processes[process].pid() }
        } else {
            Grant::Moved { process, host }
        };
        let folder = self.files_variable(host).map(|(_, folder)| folder).unwrap_or_default();
        let mut files = [0; 1024];
        files.get_mut(..folder.len()).ok_or(libc::ENAMETOOLONG)?.copy_from_slice(folder.as_bytes());
        let ticket = self.control.issue(grant).map_err(|_| libc::EAGAIN)?;
        Ok(Placement { ticket, len: folder.len() as u32, reserved: 0, files })
    }

    /// Returns the hosts with their HCAs and programs.
    pub(super) fn status(&self) -> Value {
        let hosts = self.world.spec().hosts.iter().enumerate().map(|(index, host)| {
            let devices = host.verbs_devices().map(|(number, hca)| self.device_status(index, number, hca));
            json!({
                "name": host.name,
                "address": Ipv4Addr::from_bits(network::address(index)).to_string(),
                "machine_address": Ipv4Addr::from_bits(self.host.network().kernel_address(index)).to_string(),
                "devices": devices.collect::<Vec<_>>(),
                "programs": self.programs_on(index),
            })
        });
        json!({
            "title": self.world.spec().title,
            "engine": self.control.name(),
            "pid": std::process::id(),
            "up_seconds": self.scheduler.elapsed().as_secs(),
            "hosts": hosts.collect::<Vec<_>>(),
            "fallbacks": fallbacks::to_json(&self.realtime.fallbacks_of_all(&self.processes)),
            "warnings": self.report.warnings(),
        })
    }

    fn device_status(&self, host: usize, number: usize, hca: &HcaSpec) -> Value {
        let id = self.world.hca_id(host, number);
        let ports = (1..=hca.part.ports).filter_map(|number| {
            let port = self.world.port(id, PortNumber(number))?;
            let address = port.gids.into_iter().flatten().find_map(Gid::ipv4).map(|[a, b, c, d]| format!("{a}.{b}.{c}.{d}"));
            let mut shown = json!({
                "port": number,
                "state": if port.active { "active" } else { "down" },
                "link_layer": port.link_layer.name(),
                "lid": abi_lid(port.link_layer, port.lid).0,
            });
            if let Some(address) = address {
                shown["ipv4"] = json!(address);
            }
            Some(shown)
        });
        let qps = self.world.queue_pairs().filter(|(_, of, _)| *of == id).count();
        json!({ "name": hca.device, "queue_pairs": qps, "ports": ports.collect::<Vec<_>>() })
    }

    fn programs_on(&self, host: usize) -> Vec<Value> {
        let attached = self.processes.living().filter(|process| process.host() == host && process.is_attached());
        let one = |process: &crate::process::record::Process| {
            let qps = self.world.queue_pairs().filter(|(owner, ..)| *owner == process.number()).map(|(_, _, qp)| {
                json!({
                    "qpn": qp.qpn.0,
                    "type": format!("{:?}", qp.init.qp_type).to_uppercase(),
                    "state": format!("{:?}", qp.state).to_uppercase(),
                })
            });
            json!({
                "pid": crate::procfs::number_for_users(process.pid()),
                "command": command_line(process.pid()),
                "queue_pairs": qps.collect::<Vec<_>>(),
                "fallbacks": fallbacks::to_json(&fallbacks::of(process)),
            })
        };
        attached.map(one).collect()
    }
}

/// Returns the command line of a process, with blanks between the words.
fn command_line(pid: i32) -> String {
    let bytes = crate::procfs::read(pid, "cmdline").unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim_end_matches('\0').replace('\0', " ")
}

/// Answers a command. Errors do not matter: a caller that is gone needs no answer.
fn answer(socket: &OwnedFd, reply: &CommandReply, text: &Value) {
    let file = || -> std::io::Result<OwnedFd> {
        let mut file = std::fs::File::from(rustix::fs::memfd_create("softband-answer", rustix::fs::MemfdFlags::CLOEXEC)?);
        write!(file, "{text}")?;
        Ok(file.into())
    };
    let Ok(file) = file() else { return };
    let parts = [std::io::IoSlice::new(bytemuck::bytes_of(reply))];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    ancillary.push(SendAncillaryMessage::ScmRights(&files));
    // A caller that does not read must not hold the engine up.
    let _ = rustix::net::sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}
