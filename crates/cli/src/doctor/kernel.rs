//! The kernel: its version, and the calls that only some kernels and sandboxes permit.

use super::finding::Finding;
use super::probe::{Outcome, in_child, status};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// `F_SEAL_FUTURE_WRITE`, which protects the engine's tables (`engine/realtime/direct`).
const OLDEST: (u32, u32) = (5, 1);
/// `PR_SET_SYSCALL_USER_DISPATCH`.
const COMPLETE: (u32, u32) = (5, 11);
const PR_SET_SYSCALL_USER_DISPATCH: libc::c_int = 59;

pub(super) fn findings() -> Vec<Finding> {
    vec![
        version(&rustix::system::uname().release().to_string_lossy()),
        sealed_memory(),
        engine_socket(),
        loopback(),
        user_dispatch(),
        counter_trap(),
        fixed_addresses(),
        affinity(),
    ]
}

fn version(release: &str) -> Finding {
    const NAME: &str = "kernel";
    const REMEDY: &str = "boot a newer kernel, such as that of Debian 12";
    match major_and_minor(release) {
        Some(version) if version < OLDEST => Finding::broken(NAME, release, "programs cannot attach: they need Linux 5.1", REMEDY),
        Some(version) if version < COMPLETE => {
            let effect = "Go with cgo, OpenMP and computation in parallel need Linux 5.11";
            Finding::limited(NAME, release, effect, REMEDY)
        }
        _ => Finding::ok(NAME, release),
    }
}

/// Returns the first two numbers of a release such as `6.1.0-18-amd64`.
fn major_and_minor(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn sealed_memory() -> Finding {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    const NAME: &str = "shared memory";
    let sealed = || -> rustix::io::Result<()> {
        let file = memfd_create("softband-doctor", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, 4096)?;
        fcntl_add_seals(&file, SealFlags::FUTURE_WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
    };
    let outcome = in_child(|| sealed().err().map_or(0, rustix::io::Errno::raw_os_error));
    if outcome == Outcome::Works {
        return Finding::ok(NAME, "memfd_create with seals works");
    }
    let remedy = "allow memfd_create and fcntl(F_ADD_SEALS) in the sandbox, or boot Linux 5.1 or newer";
    Finding::broken(NAME, format!("memfd_create with seals: {}", outcome.describe()), "no program can attach to a fabric", remedy)
}

/// Tries the kind of socket by which programs find their engine.
fn engine_socket() -> Finding {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, connect, getsockname, listen, socket};
    const NAME: &str = "engine socket";
    let connected = || -> rustix::io::Result<()> {
        let server = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None)?;
        // The kernel chooses a free name, so nobody can hold it.
        bind(&server, &SocketAddrUnix::new_unnamed())?;
        listen(&server, 1)?;
        let client = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None)?;
        connect(&client, &getsockname(&server)?)
    };
    let outcome = in_child(|| connected().err().map_or(0, rustix::io::Errno::raw_os_error));
    if outcome == Outcome::Works {
        return Finding::ok(NAME, "abstract Unix sockets work; their names need no folder");
    }
    let remedy = "allow abstract Unix sockets in the profile of AppArmor, SELinux or the sandbox";
    Finding::broken(NAME, format!("abstract Unix sockets: {}", outcome.describe()), "no program can attach to a fabric", remedy)
}

/// Tries a connection of the machine itself, which carries sockets at wall pace.
fn loopback() -> Finding {
    const NAME: &str = "loopback";
    let connected = || {
        let server = TcpListener::bind(("127.0.0.1", 0))?;
        TcpStream::connect_timeout(&server.local_addr()?, Duration::from_secs(2))
    };
    match connected() {
        Ok(_) => Finding::ok(NAME, "127.0.0.1 answers"),
        Err(error) => {
            let effect = "at wall pace, sockets between hosts do not connect; simulated time does not need them";
            Finding::limited(NAME, format!("127.0.0.1: {error}"), effect, "ip link set lo up (in a new network namespace, as its root)")
        }
    }
}

fn user_dispatch() -> Finding {
    const NAME: &str = "user dispatch";
    const OFF: libc::c_ulong = 0;
    // SAFETY: the call turns off a feature that is off, and accesses no memory.
    let outcome = in_child(|| status(unsafe { libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, OFF, OFF, OFF, OFF) } != 0));
    if outcome == Outcome::Works {
        return Finding::ok(NAME, "Syscall User Dispatch works");
    }
    Finding::limited(
        NAME,
        format!("Syscall User Dispatch: {}", outcome.describe()),
        "calls of Go with cgo and of OpenMP bypass simulated time; recorded computation runs one rank at a time",
        "boot Linux 5.11 or newer for x86-64, outside of sandboxes such as gVisor",
    )
}

fn counter_trap() -> Finding {
    const NAME: &str = "time stamp trap";
    // SAFETY: the calls change a setting of the child alone, which reads no counter in between.
    let trapped = || unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) == 0 && libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE) == 0 };
    let outcome = in_child(|| status(!trapped()));
    if outcome == Outcome::Works {
        return Finding::ok(NAME, "PR_SET_TSC works");
    }
    Finding::limited(
        NAME,
        format!("PR_SET_TSC: {}", outcome.describe()),
        "in simulated time, programs that read the time stamp counter (perftest) measure the machine's time",
        "use a machine or sandbox that permits prctl(PR_SET_TSC)",
    )
}

fn fixed_addresses() -> Finding {
    const NAME: &str = "fixed addresses";
    const ASK: libc::c_ulong = 0xFFFF_FFFF;
    let outcome = in_child(|| {
        // SAFETY: the call returns a number of the child.
        let persona = unsafe { libc::personality(ASK) };
        // SAFETY: the call sets a number of the child only.
        status(persona < 0 || unsafe { libc::personality((persona | libc::ADDR_NO_RANDOMIZE) as libc::c_ulong) } < 0)
    });
    if outcome == Outcome::Works {
        return Finding::ok(NAME, "personality(ADDR_NO_RANDOMIZE) works");
    }
    Finding::limited(
        NAME,
        format!("personality(ADDR_NO_RANDOMIZE): {}", outcome.describe()),
        "programs have other addresses in each run, so output that depends on addresses differs",
        "docker run with a seccomp profile that permits personality(0x0040000), or --security-opt seccomp=unconfined",
    )
}

fn affinity() -> Finding {
    const NAME: &str = "processor affinity";
    let set = || rustix::thread::sched_getaffinity(None).and_then(|own| rustix::thread::sched_setaffinity(None, &own));
    let outcome = in_child(|| set().err().map_or(0, rustix::io::Errno::raw_os_error));
    if outcome == Outcome::Works {
        return Finding::ok(NAME, "sched_setaffinity works");
    }
    let effect = "engine and programs move between processors, so simulated runs take longer; results stay";
    Finding::limited(NAME, format!("sched_setaffinity: {}", outcome.describe()), effect, "allow sched_setaffinity in the sandbox")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Health;

    #[test]
    fn releases_of_distributions_are_understood() {
        assert_eq!(major_and_minor("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(major_and_minor("5.15.167.4-microsoft-standard-WSL2"), Some((5, 15)));
        assert_eq!(major_and_minor("6.12-rc3"), Some((6, 12)));
        assert_eq!(major_and_minor("unknown"), None);
    }

    #[test]
    fn old_kernels_are_broken_or_limited() {
        let health = |release| version(release).health;
        assert_eq!(health("4.18.0-553.el8_10.x86_64"), Health::Broken);
        assert_eq!(health("5.4.0-200-generic"), Health::Limited);
        assert_eq!(health("5.11.0"), Health::Ok);
        assert_eq!(health("6.1.0-18-amd64"), Health::Ok);
    }
}
