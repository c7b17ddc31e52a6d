//! Judges a job by the events of its ranks and the ends of their programs.

use softband_engine::Interrupt;
use softband_pmi::event::Event;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Wall-clock time within which the server reports the end of a rank's connection.
const GRACE: Duration = Duration::from_millis(700);
/// Smallest exit status that stands for a signal.
const STATUS_OF_SIGNALS: i32 = 128;

/// Reason for the end of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Every rank has ended, and the server waits in vain.
    Complete,
    Died {
        rank: usize,
        status: i32,
    },
    Aborted {
        rank: usize,
        code: i32,
    },
    /// The rank ended with status 0 between `MPI_Init` and `MPI_Finalize`.
    Left {
        rank: usize,
    },
    /// The rank ended with status 0, and others called `MPI_Init`.
    NeverInitialized {
        rank: usize,
    },
    Unreadable {
        rank: usize,
    },
    ServerDied {
        status: i32,
    },
}

#[derive(Clone, Copy, Debug, Default)]
struct Rank {
    is_initialized: bool,
    is_finalized: bool,
    is_lost: bool,
    status: Option<i32>,
    /// Ranks that ended before.
    ended_before: usize,
}

/// A job under watch.
#[derive(Debug)]
pub(crate) struct Job {
    ranks: Vec<Rank>,
    verdict: Option<Verdict>,
    /// Ranks that asked for more processes.
    spawners: Vec<usize>,
}

impl Job {
    fn new(size: usize) -> Self {
        Self { ranks: vec![Rank::default(); size], verdict: None, spawners: Vec::new() }
    }

    fn decide(&mut self, verdict: Verdict) {
        self.verdict.get_or_insert(verdict);
    }

    fn event(&mut self, event: Event) {
        let (Event::Init { rank }
        | Event::Finalize { rank }
        | Event::Abort { rank, .. }
        | Event::Lost { rank }
        | Event::Spawn { rank }
        | Event::Unreadable { rank }) = event;
        let Some(of) = self.ranks.get_mut(rank) else { return };
        match event {
            Event::Init { .. } => of.is_initialized = true,
            Event::Finalize { .. } => of.is_finalized = true,
            Event::Abort { code, .. } => self.decide(Verdict::Aborted { rank, code }),
            Event::Lost { .. } => of.is_lost = true,
            Event::Spawn { .. } => self.spawners.push(rank),
            Event::Unreadable { .. } => self.decide(Verdict::Unreadable { rank }),
        }
        self.judge(false);
    }

    /// Notes the end of a rank's program.
    fn ended(&mut self, rank: usize, status: i32) {
        let ended_before = self.ranks.iter().filter(|other| other.status.is_some()).count();
        (self.ranks[rank].status, self.ranks[rank].ended_before) = (Some(status), ended_before);
        self.judge(false);
    }

    /// Decides if all is known. A rank that ended may still have said why; `late` ends the wait. The
    /// first rank that ended is to blame, because its end lets others fail.
    fn judge(&mut self, late: bool) {
        let is_any_initialized = self.ranks.iter().any(|rank| rank.is_initialized);
        let mut ranks: Vec<(usize, Rank)> = self.ranks.iter().copied().enumerate().collect();
        ranks.sort_by_key(|(_, of)| of.ended_before);
        for (rank, of) in ranks {
            let Some(status) = of.status.filter(|_| !of.is_finalized) else { continue };
            match (of.is_initialized, status) {
                (false, 0) if is_any_initialized => self.decide(Verdict::NeverInitialized { rank }),
                (false, 0) => {}
                (false, status) => self.decide(Verdict::Died { rank, status }),
                (true, _) if !of.is_lost && !late => return,
                (true, 0) => self.decide(Verdict::Left { rank }),
                (true, status) => self.decide(Verdict::Died { rank, status }),
            }
        }
        if self.ranks.iter().all(|rank| rank.status.is_some()) {
            self.decide(Verdict::Complete);
        }
    }

    /// Returns the exit status of a job without a failure: that of the first rank that has one.
    fn status_of_ranks(&self) -> i32 {
        self.ranks.iter().filter_map(|rank| rank.status).find(|status| *status != 0).unwrap_or(0)
    }
}

/// Ends a run as soon as its job is decided.
#[derive(Clone)]
pub(crate) struct Watch {
    job: Arc<Mutex<Job>>,
    interrupt: Interrupt,
}

impl Watch {
    pub(crate) fn new(size: usize, interrupt: Interrupt) -> Self {
        Self { job: Arc::new(Mutex::new(Job::new(size))), interrupt }
    }

    fn with(&self, change: impl FnOnce(&mut Job)) {
        let Ok(mut job) = self.job.lock() else { return };
        change(&mut job);
        if job.verdict.is_some() {
            self.interrupt.decide();
        }
    }

    /// Notes the end of a program. Program 0 is the server, and the ranks follow. Returns whether the
    /// server has to say more about the end.
    pub(crate) fn ended(&self, program: usize, status: i32) -> bool {
        let Some(rank) = program.checked_sub(1) else {
            self.with(|job| {
                if status != 0 {
                    job.decide(Verdict::ServerDied { status });
                }
            });
            return false;
        };
        self.with(|job| job.ended(rank, status));
        let later = self.clone();
        let is_open = self.job.lock().is_ok_and(|job| job.verdict.is_none() && job.ranks[rank].is_initialized && !job.ranks[rank].is_finalized);
        if is_open {
            let wait = move || {
                std::thread::sleep(GRACE);
                later.with(|job| job.judge(true));
            };
            if std::thread::Builder::new().name("grace".into()).spawn(wait).is_err() {
                self.with(|job| job.judge(true));
            }
        }
        is_open
    }

    /// Returns the verdict, the exit status of the ranks, and the ranks that asked for processes.
    pub(crate) fn outcome(&self) -> (Option<Verdict>, i32, Vec<usize>) {
        self.job.lock().map_or((None, 1, Vec::new()), |job| (job.verdict, job.status_of_ranks(), job.spawners.clone()))
    }
}

/// Receives the output of the server.
pub(crate) struct Events {
    pub(crate) watch: Watch,
    pub(crate) line: Vec<u8>,
}

impl Write for Events {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.line.extend(bytes);
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).take(end).collect();
            if let Some(event) = std::str::from_utf8(&line).ok().and_then(Event::parse) {
                self.watch.with(|job| job.event(event));
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Verdict {
    /// Returns the exit status of the command, as that of mpirun.
    pub(crate) fn status(self) -> Option<i32> {
        match self {
            Self::Complete => None,
            Self::Died { status, .. } => Some(status),
            Self::Aborted { code, .. } => Some(if code & 0xFF == 0 { 1 } else { code & 0xFF }),
            Self::Left { .. } | Self::NeverInitialized { .. } | Self::Unreadable { .. } | Self::ServerDied { .. } => Some(1),
        }
    }

    /// Describes the reason and the remedy. `name` names a rank. A complete job has no reason.
    pub(crate) fn text(self, name: impl Fn(usize) -> String) -> Option<String> {
        Some(match self {
            Self::Complete => return None,
            Self::Died { rank, status } if status > STATUS_OF_SIGNALS => {
                let signal = status - STATUS_OF_SIGNALS;
                format!("{} was ended by signal {signal}{}; Softband ended the job", name(rank), name_of_signal(signal))
            }
            Self::Died { rank, status } => format!("{} ended with status {status} before MPI_Finalize; Softband ended the job", name(rank)),
            Self::Aborted { rank, code } => format!("{} called MPI_Abort with code {code}; Softband ended the job", name(rank)),
            Self::Left { rank } => {
                format!("{} ended without MPI_Finalize; Softband ended the job\n  help: call MPI_Finalize in each rank, on each way out", name(rank))
            }
            Self::NeverInitialized { rank } => format!(
                "{} ended without MPI_Init, and other ranks wait for it there; Softband ended the job\n  help: call MPI_Init in each rank",
                name(rank)
            ),
            Self::Unreadable { rank } => format!(
                "{} does not speak PMI-1 with the launcher; Softband ended the job\n  help: take MPICH 4 or Open MPI 4, and name it with --mpi",
                name(rank)
            ),
            Self::ServerDied { status } => format!("the server of the ranks ended with status {status}; Softband ended the job"),
        })
    }
}

fn name_of_signal(signal: i32) -> &'static str {
    match signal {
        libc::SIGSEGV => " (SIGSEGV: a wrong address)",
        libc::SIGABRT => " (SIGABRT: the program called abort)",
        libc::SIGBUS => " (SIGBUS)",
        libc::SIGFPE => " (SIGFPE)",
        libc::SIGILL => " (SIGILL)",
        libc::SIGKILL => " (SIGKILL: a user, or the kernel for lack of memory)",
        libc::SIGTERM => " (SIGTERM)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(size: usize, steps: impl FnOnce(&mut Job)) -> Option<Verdict> {
        let mut job = Job::new(size);
        steps(&mut job);
        job.verdict
    }

    #[test]
    fn a_job_that_finalizes_is_complete_with_the_status_of_its_ranks() {
        let mut job = Job::new(2);
        for rank in 0..2 {
            job.event(Event::Init { rank });
            job.event(Event::Finalize { rank });
        }
        job.ended(1, 3);
        assert_eq!(job.verdict, None, "a status after MPI_Finalize ends no job");
        job.ended(0, 0);
        assert_eq!((job.verdict, job.status_of_ranks()), (Some(Verdict::Complete), 3));
    }

    #[test]
    fn a_rank_that_dies_is_judged_when_its_connection_is_gone() {
        let died = |job: &mut Job| {
            job.event(Event::Init { rank: 1 });
            job.ended(1, 139);
        };
        assert_eq!(verdict(2, died), None, "it may have called MPI_Abort");
        let lost = |job: &mut Job| {
            died(job);
            job.event(Event::Lost { rank: 1 });
        };
        assert_eq!(verdict(2, lost), Some(Verdict::Died { rank: 1, status: 139 }));
        let late = |job: &mut Job| {
            died(job);
            job.judge(true);
        };
        assert_eq!(verdict(2, late), Some(Verdict::Died { rank: 1, status: 139 }));
        let aborted = |job: &mut Job| {
            died(job);
            job.event(Event::Abort { rank: 1, code: 11 });
        };
        assert_eq!(verdict(2, aborted), Some(Verdict::Aborted { rank: 1, code: 11 }));
        assert_eq!(verdict(2, |job| job.ended(0, 2)), Some(Verdict::Died { rank: 0, status: 2 }), "before MPI_Init");
    }

    #[test]
    fn a_rank_that_leaves_early_is_a_failure_if_others_need_it() {
        let first = |job: &mut Job| {
            job.ended(0, 0);
            job.event(Event::Init { rank: 1 });
        };
        assert_eq!(verdict(2, first), Some(Verdict::NeverInitialized { rank: 0 }));
        let second = |job: &mut Job| {
            job.event(Event::Init { rank: 1 });
            job.ended(0, 0);
        };
        assert_eq!(verdict(2, second), Some(Verdict::NeverInitialized { rank: 0 }));
        let none = |job: &mut Job| {
            job.ended(0, 0);
            job.ended(1, 0);
        };
        assert_eq!(verdict(2, none), Some(Verdict::Complete), "no rank used MPI");
        let left = |job: &mut Job| {
            job.event(Event::Init { rank: 0 });
            job.event(Event::Lost { rank: 0 });
            job.ended(0, 0);
        };
        assert_eq!(verdict(2, left), Some(Verdict::Left { rank: 0 }));
    }

    #[test]
    fn the_first_rank_that_ended_is_to_blame() {
        let both = |job: &mut Job| {
            job.event(Event::Init { rank: 0 });
            job.event(Event::Init { rank: 1 });
            job.ended(1, 0);
            job.ended(0, 134);
            job.event(Event::Lost { rank: 0 });
            job.event(Event::Lost { rank: 1 });
        };
        assert_eq!(verdict(2, both), Some(Verdict::Left { rank: 1 }));
    }

    #[test]
    fn the_server_s_lines_become_events() {
        let watch = Watch::new(2, Interrupt::default());
        let mut events = Events { watch: watch.clone(), line: Vec::new() };
        events.write_all(b"init 0\nnonsense\nabo").unwrap();
        assert_eq!(watch.outcome().0, None);
        events.write_all(b"rt 0 5\n").unwrap();
        assert_eq!(watch.outcome().0, Some(Verdict::Aborted { rank: 0, code: 5 }));
        assert!(watch.interrupt.is_raised());
    }

    #[test]
    fn verdicts_have_texts_and_statuses() {
        let name = |rank: usize| format!("rank {rank}");
        assert_eq!(
            Verdict::Died { rank: 1, status: 139 }.text(name).unwrap(),
            "rank 1 was ended by signal 11 (SIGSEGV: a wrong address); Softband ended the job"
        );
        assert_eq!(Verdict::Aborted { rank: 1, code: 256 }.status(), Some(1));
        assert_eq!(Verdict::Aborted { rank: 1, code: 7 }.status(), Some(7));
        assert_eq!((Verdict::Complete.text(name), Verdict::Complete.status()), (None, None));
    }
}
