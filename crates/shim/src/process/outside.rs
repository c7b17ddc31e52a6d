//! New images that cannot load this library: statically linked and set-uid programs, and programs of
//! 32 bits. They run outside the fabric, so a warning names them.

use crate::clib::args::Text;
use crate::runtime::attach::attached;
use crate::runtime::world::keeping_errno;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, open, statat};
use softband_client::warn;
use softband_ipc::image;
use std::os::unix::ffi::OsStrExt;

/// Warns of a program that cannot load the library. `searches` selects a search along PATH.
pub fn warn_of(program: Text, searches: bool) {
    if !attached() {
        return;
    }
    keeping_errno(|| {
        let Some(name) = program.bytes().filter(|name| !name.is_empty()) else { return };
        let found = if searches && !name.contains(&b'/') { on_path(name) } else { Some(name.to_vec()) };
        if let Some(why) = found.and_then(|path| obstacle_of(&path, true)) {
            warn::once(&image::warning(&String::from_utf8_lossy(name), why));
        }
    });
}

fn on_path(name: &[u8]) -> Option<Vec<u8>> {
    let path = std::env::var_os("PATH")?;
    let folders = path.as_bytes().split(|byte| *byte == b':');
    let runs = |file: &Vec<u8>| {
        let is_file = statat(rustix::fs::CWD, file.as_slice(), AtFlags::empty()).is_ok_and(|about| FileType::from_raw_mode(about.st_mode).is_file());
        is_file && rustix::fs::access(file.as_slice(), rustix::fs::Access::EXEC_OK).is_ok()
    };
    folders.map(|folder| [if folder.is_empty() { b"." } else { folder }, b"/", name].concat()).find(runs)
}

/// Returns why a program cannot load the library. A script can as well as its interpreter.
fn obstacle_of(path: &[u8], follows: bool) -> Option<&'static str> {
    if image::is_loader(path) {
        return None;
    }
    // An open of a pipe would wait.
    let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty()).ok()?;
    let about = fstat(&file).ok()?;
    if !FileType::from_raw_mode(about.st_mode).is_file() {
        return None;
    }
    let changes_user = about.st_mode & libc::S_ISUID != 0 && about.st_uid != rustix::process::geteuid().as_raw();
    let changes_group = about.st_mode & libc::S_ISGID != 0 && about.st_gid != rustix::process::getegid().as_raw();
    if changes_user || changes_group {
        return Some("a set-uid program");
    }
    let mut start = [0; image::START_BYTES];
    let len = rustix::io::read(&file, &mut start).ok()?;
    match image::interpreter(&start[..len]).filter(|_| follows) {
        Some(interpreter) => obstacle_of(interpreter, false),
        None => image::obstacle(&start[..len]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_loads_libraries_wherever_it_is() {
        assert_eq!(obstacle_of(&on_path(b"sh").unwrap(), true), None);
        assert_eq!(on_path(b"no program has this name"), None);
        assert_eq!(obstacle_of(b"/dev/null", true), None);
    }
}
