//! The server of a job: attributes that it gives to the library, and events of the ranks.

use crate::abi::{self, Done, Handled, Info, Module, Proc, Status};
use crate::info::{List, Value};
use crate::library::Library;
use softband_pmi::event::Event;
use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::OnceLock;

/// Name of the server, as the ranks see it.
const SERVER: &str = "softband-server";
/// Variables of a rank for which the library has values of the server's host.
const OF_THE_SERVER: [&str; 1] = ["PMIX_HOSTNAME"];

/// Receiver of the job's events. The library keeps its state in global variables, so a process has
/// one server.
static REPORT: OnceLock<Box<dyn Fn(Event) + Send + Sync>> = OnceLock::new();
/// Name of the job of this process's server.
static JOB: OnceLock<String> = OnceLock::new();

/// A running server. It serves in threads of the library until the process ends.
pub struct Server {
    library: Library,
    name: String,
    hosts: Vec<String>,
}

impl Server {
    /// Starts a server for the job `name` with the PMIx library at `library`. Rank `i` runs on the host `hosts[i]`. Files
    /// of the library go to the folder `scratch`. The server calls `report` from a thread of the library.
    ///
    /// # Errors
    /// If the library cannot be loaded, or refuses. The text says why.
    pub fn start(
        library: &Path,
        name: &str,
        hosts: &[String],
        scratch: &str,
        report: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let library = Library::load(library)?;
        if REPORT.set(Box::new(report)).is_err() || JOB.set(name.to_owned()).is_err() {
            return Err("the process has a PMIx server already".into());
        }
        let server = Self { library, name: name.to_owned(), hosts: hosts.to_vec() };
        server.init(scratch)?;
        server.register_job(scratch)?;
        server.register_clients()?;
        server.watch_connections()?;
        Ok(server)
    }

    /// Returns the variables by which a rank finds the server.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn environment(&self, rank: usize) -> Result<Vec<(OsString, OsString)>, String> {
        let process = Proc::new(&self.name, number(rank));
        let mut list: *mut *mut c_char = std::ptr::null_mut();
        // SAFETY: the process outlives the call, which replaces the empty list by one of its own.
        let status = unsafe { (self.library.setup_fork)(&raw const process, &raw mut list) };
        self.library.check("prepare the environment of a rank", status)?;
        let mut variables = Vec::new();
        let mut at = list;
        // SAFETY: the library's list is null, or an array of C strings that ends with null.
        while let Some(word) = unsafe { next_word(&mut at) } {
            let mut parts = word.splitn(2, |byte| *byte == b'=');
            let (Some(name), Some(value)) = (parts.next(), parts.next()) else { continue };
            if !OF_THE_SERVER.iter().any(|of_the_server| of_the_server.as_bytes() == name) {
                variables.push((OsString::from_vec(name.to_vec()), OsString::from_vec(value.to_vec())));
            }
        }
        variables.push(("PMIX_HOSTNAME".into(), self.hosts[rank].clone().into()));
        Ok(variables)
    }

    fn init(&self, scratch: &str) -> Result<(), String> {
        let module = Module {
            client_connected: Some(connected),
            client_finalized: Some(finalized),
            abort: Some(abort),
            fence_to_unpublish: [std::ptr::null(); 5],
            spawn: Some(spawn),
            others: [std::ptr::null(); 55],
        };
        // The library keeps pointers to both.
        let module = Box::leak(Box::new(module));
        let settings = Box::leak(Box::new(List::new([
            ("pmix.srv.nspace", Value::Text(SERVER.into())),
            ("pmix.srv.rank", Value::Rank(0)),
            ("pmix.srvr.tmpdir", Value::Text(scratch.into())),
            ("pmix.sys.tmpdir", Value::Text(scratch.into())),
            // Ranks of other hosts connect as well.
            ("pmix.srvr.remote", Value::Bool(true)),
        ])));
        let (infos, count) = settings.as_raw();
        // SAFETY: both live for ever, and the table has more entries than any version reads.
        self.library.check("start a server", unsafe { (self.library.server_init)(module, infos, count) })
    }

    fn register_job(&self, scratch: &str) -> Result<(), String> {
        let job = job_attributes(&self.name, &self.hosts, scratch);
        let name: [u8; abi::NAME_BYTES] = abi::padded(&self.name);
        let (infos, count) = job.as_raw();
        let size = c_int::try_from(self.hosts.len()).unwrap_or(c_int::MAX);
        // SAFETY: name and attributes outlive the call. Without a callback it returns when all is done.
        let status = unsafe { (self.library.register_job)(name.as_ptr(), size, infos, count, None, std::ptr::null_mut()) };
        self.library.check("register the job", status)
    }

    fn register_clients(&self) -> Result<(), String> {
        // SAFETY: both functions only return numbers.
        let (user, group) = unsafe { (libc::getuid(), libc::getgid()) };
        for rank in 0..self.hosts.len() {
            let process = Proc::new(&self.name, number(rank));
            let none = std::ptr::null_mut();
            // SAFETY: the process outlives the call, which returns when all is done, without a callback.
            let status = unsafe { (self.library.register_client)(&raw const process, user, group, none, None, none) };
            self.library.check("register a rank", status)?;
        }
        Ok(())
    }

    fn watch_connections(&self) -> Result<(), String> {
        let mut codes = [abi::ERR_LOST_CONNECTION];
        let none = std::ptr::null_mut();
        // SAFETY: the library copies the codes, and returns when all is done, without a callback.
        let status = unsafe { (self.library.register_handler)(codes.as_mut_ptr(), codes.len(), none, 0, lost, None, none.cast()) };
        // It returns the number of the handler, or an error, which is negative.
        self.library.check("watch the connections of ranks", status.min(abi::SUCCESS))
    }
}

/// Describes the job: itself, its hosts, and its ranks.
fn job_attributes(name: &str, hosts: &[String], scratch: &str) -> List {
    let mut nodes: Vec<&String> = Vec::new();
    hosts.iter().for_each(|host| {
        if !nodes.contains(&host) {
            nodes.push(host)
        }
    });
    let size = number(hosts.len());
    let mut attributes = vec![
        ("pmix.jobid", Value::Text(name.into())),
        ("pmix.univ.size", Value::Number(size)),
        ("pmix.job.size", Value::Number(size)),
        ("pmix.max.size", Value::Number(size)),
        ("pmix.job.napps", Value::Number(1)),
        ("pmix.app.size", Value::Number(size)),
        ("pmix.aldr", Value::Rank(0)),
        ("pmix.num.nodes", Value::Number(number(nodes.len()))),
        ("pmix.tmpdir", Value::Text(scratch.into())),
        ("pmix.nsdir", Value::Text(scratch.into())),
    ];
    for (id, node) in nodes.iter().enumerate() {
        let ranks: Vec<usize> = (0..hosts.len()).filter(|rank| hosts[*rank] == **node).collect();
        let peers: Vec<String> = ranks.iter().map(usize::to_string).collect();
        let of_node = List::new([
            ("pmix.nodeid", Value::Number(number(id))),
            ("pmix.hname", Value::Text((*node).clone())),
            ("pmix.lpeers", Value::Text(peers.join(","))),
            ("pmix.local.size", Value::Number(number(ranks.len()))),
            ("pmix.node.size", Value::Number(number(ranks.len()))),
            ("pmix.lldr", Value::Rank(number(ranks[0]))),
        ]);
        attributes.push(("pmix.node.arr", Value::List(of_node)));
        for (local, rank) in ranks.into_iter().enumerate() {
            let (rank, local) = (number(rank), u16::try_from(local).unwrap_or(u16::MAX));
            let of_rank = List::new([
                // The library wants the rank first.
                ("pmix.rank", Value::Rank(rank)),
                ("pmix.appnum", Value::Number(0)),
                ("pmix.apprank", Value::Rank(rank)),
                ("pmix.grank", Value::Rank(rank)),
                ("pmix.lrank", Value::Short(local)),
                ("pmix.nrank", Value::Short(local)),
                ("pmix.nodeid", Value::Number(number(id))),
                ("pmix.hname", Value::Text((*node).clone())),
                ("pmix.reinc", Value::Number(0)),
                ("pmix.pdir", Value::Text(format!("{scratch}/{rank}"))),
            ]);
            attributes.push(("pmix.pdata", Value::List(of_rank)));
        }
    }
    List::new(attributes)
}

fn number(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Returns the word at a place of a list, and moves on.
///
/// # Safety
/// `at` is null, or points into an array of C strings that ends with null.
unsafe fn next_word<'a>(at: &mut *mut *mut c_char) -> Option<&'a [u8]> {
    if at.is_null() {
        return None;
    }
    // SAFETY: the place is in the array, at its final null at the latest.
    let word = unsafe { at.read() };
    if word.is_null() {
        return None;
    }
    // SAFETY: the word is not the last entry, so there is a next one.
    *at = unsafe { at.add(1) };
    // SAFETY: all entries but the last are C strings, and nobody frees them.
    Some(unsafe { CStr::from_ptr(word) }.to_bytes())
}

/// Returns the rank of a process of the job. The server and tools have names of their own.
fn rank_of(process: &Proc) -> Option<usize> {
    // The library may leave bytes behind the final zero.
    let name = CStr::from_bytes_until_nul(&process.name).ok()?;
    JOB.get().filter(|job| name.to_bytes() == job.as_bytes()).map(|_| process.rank as usize)
}

fn report(event: impl Fn(usize) -> Event, process: *const Proc) {
    // SAFETY: the library names a process for the time of its call.
    let rank = unsafe { process.as_ref() }.and_then(rank_of);
    if let (Some(rank), Some(report)) = (rank, REPORT.get()) {
        report(event(rank));
    }
}

unsafe extern "C" fn connected(process: *const Proc, _: *mut c_void, _: Done, _: *mut c_void) -> Status {
    report(|rank| Event::Init { rank }, process);
    abi::OPERATION_SUCCEEDED
}

unsafe extern "C" fn finalized(process: *const Proc, _: *mut c_void, _: Done, _: *mut c_void) -> Status {
    report(|rank| Event::Finalize { rank }, process);
    abi::OPERATION_SUCCEEDED
}

/// The launcher ends the rank, which waits for an answer.
unsafe extern "C" fn abort(
    process: *const Proc,
    _: *mut c_void,
    code: c_int,
    _: *const c_char,
    _: *mut Proc,
    _: usize,
    _: Done,
    _: *mut c_void,
) -> Status {
    report(|rank| Event::Abort { rank, code }, process);
    abi::SUCCESS
}

unsafe extern "C" fn spawn(process: *const Proc, _: *const Info, _: usize, _: *const c_void, _: usize, _: *mut c_void, _: *mut c_void) -> Status {
    report(|rank| Event::Spawn { rank }, process);
    abi::ERR_NOT_SUPPORTED
}

unsafe extern "C" fn lost(
    _: usize,
    _: Status,
    process: *const Proc,
    _: *mut Info,
    _: usize,
    _: *mut Info,
    _: usize,
    handled: Handled,
    data: *mut c_void,
) {
    report(|rank| Event::Lost { rank }, process);
    if let Some(handled) = handled {
        let none = std::ptr::null_mut();
        // SAFETY: the library's own function, with its own data, and no results.
        unsafe { handled(abi::EVENT_ACTION_COMPLETE, std::ptr::null_mut(), 0, None, none, data) };
    }
}

/// Writes variables as `NAME=VALUE`, each with a zero behind it.
#[must_use]
pub fn written(variables: &[(OsString, OsString)]) -> Vec<u8> {
    let words = variables.iter().map(|(name, value)| [name.as_encoded_bytes(), b"=", value.as_encoded_bytes(), b"\0"].concat());
    words.collect::<Vec<_>>().concat()
}

/// Reads variables that `written` wrote. Leaves out what is none.
#[must_use]
pub fn read(bytes: &[u8]) -> Vec<(OsString, OsString)> {
    let words = bytes.split(|byte| *byte == 0).filter_map(|word| CString::new(word).ok());
    let parts = |word: CString| {
        let word = word.into_bytes();
        let at = word.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
        Some((OsString::from_vec(word[..at].to_vec()), OsString::from_vec(word[at + 1..].to_vec())))
    };
    words.filter_map(parts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_read_back() {
        let variables: Vec<(OsString, OsString)> = vec![("A".into(), "1=2".into()), ("B".into(), "".into())];
        assert_eq!(written(&variables), b"A=1=2\0B=\0");
        assert_eq!(read(&written(&variables)), variables);
        assert_eq!(read(b"no variable\0=x\0"), []);
    }

    #[test]
    fn a_job_describes_itself_its_hosts_and_its_ranks() {
        let hosts = ["b", "b", "a"].map(String::from);
        let (infos, count) = {
            let list = Box::leak(Box::new(job_attributes("softband-1", &hosts, "/tmp/x")));
            list.as_raw()
        };
        // SAFETY: the list stays, and has as many attributes as it says.
        let keys: Vec<String> =
            (0..count).map(|at| unsafe { CStr::from_ptr((*infos.add(at)).key.as_ptr().cast()) }.to_string_lossy().into()).collect();
        let with = |key: &str| keys.iter().filter(|other| *other == key).count();
        assert_eq!((with("pmix.node.arr"), with("pmix.pdata"), with("pmix.job.size")), (2, 3, 1));
    }

    #[test]
    fn events_of_processes_beyond_the_job_have_no_rank() {
        JOB.set("softband-1".into()).unwrap();
        assert_eq!(rank_of(&Proc::new("softband-1", 3)), Some(3));
        assert_eq!(rank_of(&Proc::new("softband", 3)), None);
        assert_eq!((rank_of(&Proc::new(SERVER, 0)), rank_of(&Proc::new("", 1))), (None, None));
    }

    #[test]
    fn lists_of_the_library_end_at_null() {
        let words = [c"A=1".as_ptr().cast_mut(), c"B=2".as_ptr().cast_mut(), std::ptr::null_mut()];
        let mut at = words.as_ptr().cast_mut();
        let mut found = Vec::new();
        // SAFETY: the array ends with null.
        while let Some(word) = unsafe { next_word(&mut at) } {
            found.push(word);
        }
        assert_eq!(found, [b"A=1", b"B=2"]);
    }
}
