//! The environment of new images. It keeps children in the fabric, even if a program changes its
//! environment.

use crate::clib::args::{Texts, Zeroed};
use softband_client::fds;
use softband_ipc::environment::{ENGINE, FILES, HOST, HOSTS, LIBRARIES, TICKET, ticket_text};
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const PRELOAD: &str = "LD_PRELOAD";
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
/// Objects of the engine that a new image takes over: `fd:kind:object`, separated by commas. fd is
/// -1 if exec closed it.
const FDS: &str = "SOFTBAND_FDS";
/// Descriptor whose close reports the end of the process to its parent.
const LIFELINE: &str = "SOFTBAND_LIFELINE";
/// The parent's real and simulated process numbers.
const PARENT: &str = "SOFTBAND_PARENT";
/// The variables that each image gets anew.
const PER_IMAGE: [&str; 4] = [TICKET, FDS, LIFELINE, PARENT];
/// The variables that place a program on its host. Every image of a process has them.
const PLACE: [&str; 5] = [ENGINE, FILES, HOST, HOSTS, LIBRARIES];

#[derive(Debug)]
struct Remembered {
    /// The variables of the place of this process.
    variables: Vec<CString>,
    library: Option<Vec<u8>>,
    /// The folder of all libraries.
    libraries: Option<Vec<u8>>,
}

static REMEMBERED: OnceLock<Remembered> = OnceLock::new();

/// Stores the variables that children need, before the program can change its environment.
pub fn remember() {
    REMEMBERED.get_or_init(|| {
        let variable = |name: &&str| CString::new([name.as_bytes(), b"=", std::env::var_os(name)?.as_bytes()].concat()).ok();
        let variables = PLACE.iter().filter_map(variable).collect();
        Remembered { variables, library: own_path(), libraries: std::env::var_os(LIBRARIES).map(OsString::into_vec) }
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

/// Returns the folder of this library. It is empty if the code is not in a library (tests).
pub fn own_folder() -> PathBuf {
    let library = REMEMBERED.get().and_then(|remembered| remembered.library.as_deref());
    library.and_then(|path| Path::new(OsStr::from_bytes(path)).parent()).map_or_else(PathBuf::new, Path::to_path_buf)
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
    /// The parent's real and simulated numbers. An image that the engine does not expect has none,
    /// and takes over no objects.
    pub parent: Option<(i32, i32)>,
}

/// Another host, for the next image.
#[derive(Debug)]
pub struct Place {
    pub host: String,
    /// Value of [`FILES`]; empty if the host has no files.
    pub files: String,
}

impl Place {
    /// Returns the variables of the present place with those of the other host.
    fn variables(&self, present: &[CString]) -> Vec<CString> {
        let stays = |variable: &&CString| [HOST, FILES].iter().all(|name| value_of(variable, name).is_none());
        let new = [(HOST, &self.host), (FILES, &self.files)].into_iter().filter(|(_, value)| !value.is_empty());
        let new = new.filter_map(|(name, value)| CString::new(format!("{name}={value}")).ok());
        present.iter().filter(stays).cloned().chain(new).collect()
    }
}

impl ForImage {
    /// Returns the values of an image that attaches as a new child of this process.
    pub fn unexpected() -> Self {
        Self { ticket: softband_client::secret(), lifeline: None, parent: None }
    }
}

/// Returns the program's `environment` with the variables that its new image needs. With `place`, the
/// image belongs on another host.
pub fn for_image(environment: Texts, image: ForImage, place: Option<&Place>) -> NewEnvironment {
    let theirs = environment.iter().map(CStr::to_owned).collect();
    let remembered = REMEMBERED.get();
    let variables = |ours: &Remembered| place.map_or_else(|| ours.variables.clone(), |place| place.variables(&ours.variables));
    let mut owned = remembered.map_or(Vec::new(), |ours| merge(theirs, ours, variables(ours)));
    let mut add = |name: &str, value: String| owned.extend(CString::new(format!("{name}={value}")));
    add(TICKET, ticket_text(image.ticket));
    if let Some((real, simulated)) = image.parent {
        add(FDS, objects_text());
        add(PARENT, format!("{real}:{simulated}"));
    }
    if let Some(fd) = image.lifeline {
        add(LIFELINE, fd.to_string());
    }
    let pointers = owned.iter().map(|variable| variable.as_ptr()).chain([std::ptr::null()]).collect();
    NewEnvironment { _owned: owned, pointers }
}

/// Returns their variables without outdated variables of ours, then `variables`. Puts our folder first
/// in the library path, and our library last in the preload list: it stands for the kernel, so
/// libraries that the program puts before the C library (librspreload) come before ours.
fn merge(theirs: Vec<CString>, ours: &Remembered, variables: Vec<CString>) -> Vec<CString> {
    let (mut preload, mut path) = (Vec::new(), Vec::new());
    let mut merged = Vec::new();
    for variable in theirs {
        if let Some(value) = value_of(&variable, PRELOAD) {
            preload = value.to_vec();
        } else if let Some(value) = value_of(&variable, LIBRARY_PATH) {
            path = value.to_vec();
        } else if !PER_IMAGE.iter().chain(&PLACE).any(|name| value_of(&variable, name).is_some()) {
            merged.push(variable);
        }
    }
    merged.extend(listed(PRELOAD, ours.library.as_deref(), &preload, (b": ", End::Last)));
    merged.extend(listed(LIBRARY_PATH, ours.libraries.as_deref(), &path, (b":;", End::First)));
    merged.extend(variables);
    merged
}

/// Returns the value of a variable with this name.
fn value_of<'a>(variable: &'a CString, name: &str) -> Option<&'a [u8]> {
    variable.as_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

/// Place of our entry in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    First,
    Last,
}

/// Returns a list variable of the dynamic linker with `own` at an end. Returns `None` for an empty
/// list.
fn listed(name: &str, own: Option<&[u8]>, value: &[u8], (separators, end): (&[u8], End)) -> Option<CString> {
    let mut value = value.to_vec();
    if let Some(own) = own {
        let mut parts: Vec<&[u8]> = value.split(|byte| separators.contains(byte)).filter(|part| !part.is_empty() && *part != own).collect();
        parts.insert(if end == End::First { 0 } else { parts.len() }, own);
        value = parts.join(&b':');
    }
    if value.is_empty() { None } else { CString::new([name.as_bytes(), b"=", &value].concat()).ok() }
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

    fn ours(library: &str, libraries: &str) -> Remembered {
        Remembered { variables: Vec::new(), library: Some(library.into()), libraries: Some(libraries.into()) }
    }

    #[test]
    fn an_emptied_environment_still_leads_to_the_engine() {
        let merged = merge(Vec::new(), &ours("/lib/libsoftband.so", "/lib"), strings(&["SOFTBAND_ENGINE=x"]));
        assert_eq!(merged, strings(&["LD_PRELOAD=/lib/libsoftband.so", "LD_LIBRARY_PATH=/lib", "SOFTBAND_ENGINE=x"]));
    }

    #[test]
    fn other_preloads_are_kept_before_ours_and_stale_variables_go() {
        let theirs = strings(&[
            "A=1",
            "SOFTBAND_TICKET=7",
            "SOFTBAND_HOST=b",
            "SOFTBAND_FABRIC=f",
            "LD_PRELOAD=/x.so:/s.so /y.so",
            "LD_LIBRARY_PATH=/z:/l",
            "B=2",
        ]);
        let merged = merge(theirs, &ours("/s.so", "/l"), Vec::new());
        assert_eq!(merged, strings(&["A=1", "SOFTBAND_FABRIC=f", "B=2", "LD_PRELOAD=/x.so:/y.so:/s.so", "LD_LIBRARY_PATH=/l:/z"]));
    }

    #[test]
    fn an_image_on_another_host_gets_the_variables_of_that_host() {
        let present = strings(&["SOFTBAND_ENGINE=x", "SOFTBAND_FILES=/a", "SOFTBAND_HOST=a"]);
        let place = Place { host: "b".into(), files: "/b".into() };
        assert_eq!(place.variables(&present), strings(&["SOFTBAND_ENGINE=x", "SOFTBAND_HOST=b", "SOFTBAND_FILES=/b"]));
    }

    #[test]
    fn inherited_objects_are_read_and_nonsense_is_not() {
        assert_eq!(parse_objects("3:1:17,-1:5:9,x,4:1"), [(3, 1, 17), (-1, 5, 9)]);
        assert_eq!(parse_objects(""), []);
    }
}
