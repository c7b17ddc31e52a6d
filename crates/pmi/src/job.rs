//! The server's rules: a job of ranks that write and read one key-value space and meet at barriers.

use crate::event::Event;
use crate::message::Request;
use crate::{KEY_MAX, MAPPING_KEY, NAME_MAX, VALUE_MAX, mapping};
use std::collections::BTreeMap;

/// Number of a connection, given by the caller.
pub type Connection = usize;

/// Something that the caller does after a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends lines to a connection.
    Send(Connection, String),
    /// Closes a connection.
    Close(Connection),
    /// Reports to the launcher.
    Report(Event),
}

#[derive(Debug, Default)]
struct Peer {
    rank: Option<usize>,
    is_initialized: bool,
    is_finalized: bool,
    waits: bool,
    /// Between `mcmd=spawn` and `endcmd`.
    spawns: bool,
}

/// A job with its ranks' connections.
#[derive(Debug)]
pub struct Job {
    /// Name of the job and of its only key-value space. Ranks name files of shared memory by it, so
    /// no two jobs of a machine have the same.
    name: String,
    size: usize,
    space: BTreeMap<String, String>,
    peers: BTreeMap<Connection, Peer>,
    /// Ranks whose connection ended, or that finalized.
    ended: usize,
}

impl Job {
    /// Makes a job of this name. Its rank `i` runs on host `hosts[i]`.
    #[must_use]
    pub fn new(name: &str, hosts: &[usize]) -> Self {
        let space = mapping::text(hosts).map(|text| (MAPPING_KEY.to_owned(), text)).into_iter().collect();
        Self { name: name.to_owned(), size: hosts.len(), space, peers: BTreeMap::new(), ended: 0 }
    }

    /// Returns whether each rank has connected once and has ended its connection.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ended >= self.size
    }

    /// Adds a connection without a rank.
    pub fn connected(&mut self, from: Connection) {
        self.peers.insert(from, Peer::default());
    }

    /// Removes a connection that its peer closed.
    pub fn closed(&mut self, from: Connection) -> Vec<Action> {
        let Some(peer) = self.peers.remove(&from) else { return Vec::new() };
        let Some(rank) = peer.rank else { return Vec::new() };
        self.ended += 1;
        if peer.is_finalized || !peer.is_initialized { Vec::new() } else { vec![Action::Report(Event::Lost { rank })] }
    }

    /// Removes a connection whose bytes are no lines of PMI-1.
    pub fn unreadable(&mut self, from: Connection) -> Vec<Action> {
        let rank = self.peers.remove(&from).and_then(|peer| peer.rank);
        self.ended += usize::from(rank.is_some());
        rank.map(|rank| Action::Report(Event::Unreadable { rank })).into_iter().chain([Action::Close(from)]).collect()
    }

    /// Handles a line of a connection.
    pub fn line(&mut self, from: Connection, line: &str) -> Vec<Action> {
        let Some(peer) = self.peers.get_mut(&from) else { return Vec::new() };
        if peer.spawns {
            if !line.split(' ').any(|word| word == "endcmd") {
                return Vec::new();
            }
            peer.spawns = false;
            let report = peer.rank.map(|rank| Action::Report(Event::Spawn { rank }));
            return [Action::Send(from, "cmd=spawn_result rc=-1 msg=not_supported".into())].into_iter().chain(report).collect();
        }
        let Ok(request) = Request::parse(line) else { return self.unreadable(from) };
        match (peer.rank, request) {
            (None, Request::Identify { id }) => self.identify(from, id),
            (Some(rank), request) if !matches!(request, Request::Identify { .. }) => self.request(from, rank, request),
            _ => self.unreadable(from),
        }
    }

    fn identify(&mut self, from: Connection, rank: usize) -> Vec<Action> {
        let is_taken = self.peers.values().any(|peer| peer.rank == Some(rank));
        let Some(peer) = self.peers.get_mut(&from).filter(|_| rank < self.size && !is_taken) else { return self.unreadable(from) };
        peer.rank = Some(rank);
        let lines = format!("cmd=initack\ncmd=set size={}\ncmd=set rank={rank}\ncmd=set debug=0", self.size);
        vec![Action::Send(from, lines)]
    }

    fn request(&mut self, from: Connection, rank: usize, request: Request) -> Vec<Action> {
        let mut report = None;
        let peer = self.peers.entry(from).or_default();
        let answer = match request {
            Request::Init => {
                peer.is_initialized = true;
                report = Some(Event::Init { rank });
                "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".into()
            }
            Request::Maxes => format!("cmd=maxes kvsname_max={NAME_MAX} keylen_max={KEY_MAX} vallen_max={VALUE_MAX}"),
            Request::SpaceName => format!("cmd=my_kvsname kvsname={}", self.name),
            Request::AppNumber => "cmd=appnum appnum=0".into(),
            Request::UniverseSize => format!("cmd=universe_size size={}", self.size),
            Request::Put { key, value } => {
                self.space.insert(key, value);
                "cmd=put_result rc=0 msg=success".into()
            }
            Request::Get { key } => match self.space.get(&key) {
                Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
                None => "cmd=get_result rc=-1 msg=key_not_found value=unknown".into(),
            },
            Request::GetByIndex { index } => match self.space.iter().nth(index) {
                Some((key, value)) => format!("cmd=getbyidx_results rc=0 nextidx={} key={key} val={value}", index + 1),
                None => "cmd=getbyidx_results rc=-1 reason=no_more_keyvals".into(),
            },
            Request::Barrier => {
                peer.waits = true;
                return self.release_barrier();
            }
            Request::Finalize => {
                peer.is_finalized = true;
                report = Some(Event::Finalize { rank });
                "cmd=finalize_ack".into()
            }
            Request::Abort { code } => return vec![Action::Report(Event::Abort { rank, code })],
            Request::Publish => "cmd=publish_result rc=-1 msg=not_supported".into(),
            Request::Lookup => "cmd=lookup_result rc=-1 msg=not_supported".into(),
            Request::Unpublish => "cmd=unpublish_result rc=-1 msg=not_supported".into(),
            Request::Spawn => {
                peer.spawns = true;
                return Vec::new();
            }
            Request::Identify { .. } | Request::SpawnEnd => return self.unreadable(from),
        };
        // The report comes first. The launcher then knows of it before the rank can go on and end.
        report.map(Action::Report).into_iter().chain([Action::Send(from, answer)]).collect()
    }

    /// Lets all ranks out of the barrier if all are in it.
    fn release_barrier(&mut self) -> Vec<Action> {
        if self.peers.values().filter(|peer| peer.waits).count() < self.size {
            return Vec::new();
        }
        let mut waiting: Vec<(Option<usize>, Connection)> = Vec::new();
        for (connection, peer) in &mut self.peers {
            if std::mem::take(&mut peer.waits) {
                waiting.push((peer.rank, *connection));
            }
        }
        waiting.sort_unstable();
        waiting.into_iter().map(|(_, connection)| Action::Send(connection, "cmd=barrier_out".into())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(to: Connection, text: &str) -> Action {
        Action::Send(to, text.into())
    }

    fn job_of_two() -> Job {
        let mut job = Job::new("softband-1", &[0, 1]);
        for (connection, rank) in [(10, 1), (11, 0)] {
            job.connected(connection);
            let answer = format!("cmd=initack\ncmd=set size=2\ncmd=set rank={rank}\ncmd=set debug=0");
            assert_eq!(job.line(connection, &format!("cmd=initack pmiid={rank}")), [send(connection, &answer)]);
            let answer = send(connection, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
            assert_eq!(job.line(connection, "cmd=init pmi_version=1 pmi_subversion=1"), [Action::Report(Event::Init { rank }), answer]);
        }
        job
    }

    #[test]
    fn ranks_exchange_values_and_meet_at_barriers() {
        let mut job = job_of_two();
        assert_eq!(job.line(10, "cmd=put kvsname=softband key=k value=v"), [send(10, "cmd=put_result rc=0 msg=success")]);
        assert_eq!(job.line(10, "cmd=get_my_kvsname"), [send(10, "cmd=my_kvsname kvsname=softband-1")]);
        assert_eq!(job.line(10, "cmd=barrier_in"), []);
        assert_eq!(job.line(11, "cmd=barrier_in"), [send(11, "cmd=barrier_out"), send(10, "cmd=barrier_out")]);
        assert_eq!(job.line(11, "cmd=get kvsname=softband key=k"), [send(11, "cmd=get_result rc=0 msg=success value=v")]);
        assert_eq!(job.line(11, "cmd=get kvsname=softband key=x"), [send(11, "cmd=get_result rc=-1 msg=key_not_found value=unknown")]);
        let mapping = send(11, "cmd=get_result rc=0 msg=success value=(vector,(0,2,1))");
        assert_eq!(job.line(11, "cmd=get kvsname=softband key=PMI_process_mapping"), [mapping]);
    }

    #[test]
    fn the_job_is_over_when_every_rank_has_gone() {
        let mut job = job_of_two();
        assert_eq!(job.line(10, "cmd=finalize"), [Action::Report(Event::Finalize { rank: 1 }), send(10, "cmd=finalize_ack")]);
        assert_eq!(job.closed(10), []);
        assert!(!job.is_over());
        assert_eq!(job.closed(11), [Action::Report(Event::Lost { rank: 0 })]);
        assert!(job.is_over());
    }

    #[test]
    fn an_abort_and_a_spawn_are_reported() {
        let mut job = job_of_two();
        assert_eq!(job.line(10, "cmd=abort exitcode=4"), [Action::Report(Event::Abort { rank: 1, code: 4 })]);
        assert_eq!(job.line(11, "mcmd=spawn"), []);
        assert_eq!(job.line(11, "nprocs=2"), []);
        let refusal = send(11, "cmd=spawn_result rc=-1 msg=not_supported");
        assert_eq!(job.line(11, "endcmd"), [refusal, Action::Report(Event::Spawn { rank: 0 })]);
    }

    #[test]
    fn peers_that_do_not_speak_the_protocol_are_closed() {
        let mut job = job_of_two();
        assert_eq!(job.line(10, "GET / HTTP/1.1"), [Action::Report(Event::Unreadable { rank: 1 }), Action::Close(10)]);
        job.connected(12);
        assert_eq!(job.line(12, "cmd=initack pmiid=0"), [Action::Close(12)], "rank 0 is taken");
        job.connected(13);
        assert_eq!(job.line(13, "cmd=initack pmiid=9"), [Action::Close(13)], "no rank 9");
        job.connected(14);
        assert_eq!(job.line(14, "cmd=barrier_in"), [Action::Close(14)], "no rank yet");
        assert_eq!(job.line(99, "cmd=init"), [], "no connection");
    }
}
