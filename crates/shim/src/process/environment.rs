//! The environment of new images. It keeps children in the fabric, even if a program changes its
//! environment.

use crate::clib::args::{Texts, Zeroed};
use softband_client::fds;
use softband_ipc::environment::{TICKET, ticket_text};
use std::ffi::{CStr, CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

const PRELOAD: &str = "LD_PRELOAD";
const PREFIX: &[u8] = b"SOFTBAND_";
/// Objects of the engine that a new image takes over: `fd:kind:object`, separated by commas. fd is
/// -1 if exec closed it.
const FDS: &str = "SOFTBAND_FDS";
/// Descriptor whose close reports the end of the process to its parent.
const LIFELINE: &str = "SOFTBAND_LIFELINE";
/// The parent's real and simulated process numbers.
const PARENT: &str = "SOFTBAND_PARENT";
/// The variables that each image gets anew.
const PER_IMAGE: [&str; 4] = [TICKET, FDS, LIFELINE, PARENT];

#[derive(Debug)]
struct Remembered {
    /// `SOFTBAND_` variables, except those of a single image.
    variables: Vec<CString>,
    library: Option<Vec<u8>>,
}

static REMEMBERED: OnceLock<Remembered> = OnceLock::new();

/// Stores the variables that children need, before the program can change its environment.
pub fn remember() {
    REMEMBERED.get_or_init(|| {
        let ours = |name: &OsString| name.as_bytes().starts_with(PREFIX) && !PER_IMAGE.iter().any(|other| name.as_bytes() == other.as_bytes());
        let mut variables: Vec<CString> = std::env::vars_os()
            .filter(|(name, _)| ours(name))
            .filter_map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok())
            .collect();
        variables.sort();
        Remembered { variables, library: own_path() }
    });
}

/// Returns the path of this library, or `None` if the code is not in a library (tests).
fn own_path() -> Option<Vec<u8>> {
    let mut info = libc::Dl_info::zeroed();
    // SAFETY: dladdr only compares the address, and fills the structure.
    if unsafe { libc::dladdr(own_path as *const () as *const _, &raw mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the name is a string that lives as long as the library.
    let path = unsafe { CStr::from_ptr(info.dli_fname) }.to_bytes().to_vec();
    path.windows(3).any(|part| part == b".so").then_some(path)
}

/// State that the parent image left for this image.
#[derive(Debug, Default)]
pub struct Inherited {
    pub objects: Vec<(i32, u8, u32)>,
    pub lifeline: Option<i32>,
    pub parent: Option<(i32, i32)>,
}

/// Reads the state that the parent image left.
pub fn inherited() -> Inherited {
    let text = |name: &str| std::env::var_os(name).and_then(|value| value.into_string().ok()).unwrap_or_default();
    Inherited {
        objects: parse_objects(&text(FDS)),
        lifeline: text(LIFELINE).parse().ok(),
        parent: text(PARENT).split_once(':').and_then(|(real, simulated)| Some((real.parse().ok()?, simulated.parse().ok()?))),
    }
}

fn parse_objects(text: &str) -> Vec<(i32, u8, u32)> {
    let one = |item: &str| {
        let mut parts = item.split(':');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    };
    text.split(',').filter_map(one).collect()
}

/// An environment for `execve`.
pub struct NewEnvironment {
    _owned: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

impl NewEnvironment {
    pub fn texts(&self) -> Texts<'_> {
        // SAFETY: `for_image` ends the list with a null pointer; `_owned` holds the strings.
        unsafe { Texts::from_raw(self.pointers.as_ptr()) }
    }
}

/// Values that differ between images.
#[derive(Clone, Copy, Debug)]
pub struct ForImage {
    pub ticket: u64,
    pub lifeline: Option<i32>,
    pub parent: (i32, i32),
}

/// Returns the program's `environment` with the variables that its new image needs.
pub fn for_image(environment: Texts, image: ForImage) -> NewEnvironment {
    let theirs = environment.iter().map(CStr::to_owned).collect();
    let remembered = REMEMBERED.get();
    let library = remembered.and_then(|remembered| remembered.library.as_deref());
    let mut owned = merge(theirs, remembered.map_or(&[], |remembered| &remembered.variables), library);
    let mut add = |name: &str, value: String| owned.extend(CString::new(format!("{name}={value}")));
    add(TICKET, ticket_text(image.ticket));
    add(FDS, objects_text());
    add(PARENT, format!("{}:{}", image.parent.0, image.parent.1));
    if let Some(fd) = image.lifeline {
        add(LIFELINE, fd.to_string());
    }
    let pointers = owned.iter().map(|variable| variable.as_ptr()).chain([std::ptr::null()]).collect();
    NewEnvironment { _owned: owned, pointers }
}

/// Returns their variables without outdated variables of ours, then our current variables. Puts
/// `library` first in the preload list.
fn merge(theirs: Vec<CString>, ours: &[CString], library: Option<&[u8]>) -> Vec<CString> {
    let preload_start = [PRELOAD.as_bytes(), b"="].concat();
    let mut preload: Vec<u8> = Vec::new();
    let mut merged = Vec::new();
    for variable in theirs {
        if let Some(value) = variable.as_bytes().strip_prefix(preload_start.as_slice()) {
            preload = value.to_vec();
        } else if !variable.as_bytes().starts_with(PREFIX) {
            merged.push(variable);
        }
    }
    if let Some(library) = library {
        let others = preload.split(|byte| matches!(byte, b':' | b' ')).filter(|part| !part.is_empty() && *part != library);
        preload = std::iter::once(library).chain(others).collect::<Vec<_>>().join(&b':');
    }
    if !preload.is_empty() {
        merged.extend(CString::new([preload_start.as_slice(), &preload].concat()));
    }
    merged.extend(ours.iter().cloned());
    merged
}

fn objects_text() -> String {
    let item = |(fd, entry): (i32, fds::Entry)| {
        // SAFETY: F_GETFD has no argument.
        let kept = unsafe { crate::clib::real::fcntl(fd, libc::F_GETFD, 0) } & libc::FD_CLOEXEC == 0;
        format!("{}:{}:{}", if kept { fd } else { -1 }, entry.kind as u8, entry.object)
    };
    fds::all().map(item).collect::<Vec<_>>().join(",")
}

/// Returns the variable list of this process.
pub fn current() -> Texts<'static> {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    // SAFETY: the C library keeps `environ` null or at a list of strings that a null pointer ends.
    unsafe { Texts::from_raw(environ) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(list: &[&str]) -> Vec<CString> {
        list.iter().map(|text| CString::new(*text).unwrap()).collect()
    }

    #[test]
    fn an_emptied_environment_still_leads_to_the_engine() {
        let merged = merge(Vec::new(), &strings(&["SOFTBAND_ENGINE=x"]), Some(b"/lib/libsoftband.so"));
        assert_eq!(merged, strings(&["LD_PRELOAD=/lib/libsoftband.so", "SOFTBAND_ENGINE=x"]));
    }

    #[test]
    fn other_preloads_are_kept_behind_ours_and_stale_variables_go() {
        let theirs = strings(&["A=1", "SOFTBAND_TICKET=7", "LD_PRELOAD=/x.so:/s.so /y.so", "B=2"]);
        let merged = merge(theirs, &[], Some(b"/s.so"));
        assert_eq!(merged, strings(&["A=1", "B=2", "LD_PRELOAD=/s.so:/x.so:/y.so"]));
    }

    #[test]
    fn inherited_objects_are_read_and_nonsense_is_not() {
        assert_eq!(parse_objects("3:1:17,-1:5:9,x,4:1"), [(3, 1, 17), (-1, 5, 9)]);
        assert_eq!(parse_objects(""), []);
    }
}
