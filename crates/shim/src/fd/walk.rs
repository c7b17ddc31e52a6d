//! Functions of the C library that walk through folders: `glob`, `ftw`, `fts`. They look past the
//! functions of this library, so they get our functions, or a path in the engine's folder.

use crate::clib::args::{Text, Texts};
use crate::clib::real;
use crate::fd::{files, status};
use crate::runtime::attach::attached;
use libc::{DIR, c_char, c_int, c_void, dirent64};
use std::cell::Cell;

/// The program gives functions of its own that list folders (glob.h).
const GLOB_ALTDIRFUNC: c_int = 1 << 9;

type OpenFolder = extern "C" fn(Text) -> *mut DIR;
type Status = extern "C" fn(Text, crate::clib::args::Out<libc::stat>) -> c_int;

/// `glob_t` (glob.h).
#[repr(C)]
pub struct Glob {
    paths: usize,
    path_list: *mut *mut c_char,
    reserved: usize,
    flags: c_int,
    functions: Functions,
}

/// The functions by which `glob` lists folders.
#[repr(C)]
#[derive(Clone, Copy)]
struct Functions {
    close: Option<unsafe extern "C" fn(*mut DIR)>,
    read: Option<unsafe extern "C" fn(*mut DIR) -> *mut dirent64>,
    open: Option<OpenFolder>,
    lstat: Option<Status>,
    stat: Option<Status>,
}

unsafe extern "C" {
    fn readdir64(folder: *mut DIR) -> *mut dirent64;
    fn closedir(folder: *mut DIR) -> c_int;
}

unsafe extern "C" fn close_folder(folder: *mut DIR) {
    // SAFETY: the C library passes a folder that `opendir` opened.
    unsafe { closedir(folder) };
}

/// Implements `glob`.
///
/// # Safety
/// The arguments are those of `glob`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn glob(pattern: Text, flags: c_int, on_error: *mut c_void, result: *mut Glob) -> c_int {
    if result.is_null() || flags & GLOB_ALTDIRFUNC != 0 || !attached() {
        // SAFETY: the arguments go on as they came.
        return unsafe { real::glob(pattern, flags, on_error, result) };
    }
    // SAFETY: the result is not null, and it lives during the call.
    let result = unsafe { &mut *result };
    let theirs = result.functions;
    result.functions = Functions {
        close: Some(close_folder),
        read: Some(readdir64),
        open: Some(files::opendir),
        lstat: Some(status::lstat),
        stat: Some(status::stat),
    };
    // SAFETY: the result has each function that the flag promises.
    let status = unsafe { real::glob(pattern, flags | GLOB_ALTDIRFUNC, on_error, result) };
    result.functions = theirs;
    result.flags &= !GLOB_ALTDIRFUNC;
    status
}

/// Implements the name of `glob` for large files.
///
/// # Safety
/// The arguments are those of `glob`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn glob64(pattern: Text, flags: c_int, on_error: *mut c_void, result: *mut Glob) -> c_int {
    // SAFETY: all files are large on this machine, so both names have one contract.
    unsafe { glob(pattern, flags, on_error, result) }
}

/// Position of the name in a path, and depth (`struct FTW`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Position {
    base: c_int,
    level: c_int,
}

pub type Visit = unsafe extern "C" fn(*const c_char, *const libc::stat, c_int, *mut Position) -> c_int;
pub type VisitFile = unsafe extern "C" fn(*const c_char, *const libc::stat, c_int) -> c_int;

thread_local! {
    /// The function of the walk under way in this thread, and the bytes that its paths lose.
    static WALK: Cell<(Option<Visit>, usize)> = const { Cell::new((None, 0)) };
    static WALK_FILES: Cell<(Option<VisitFile>, usize)> = const { Cell::new((None, 0)) };
}

unsafe extern "C" fn visit(path: *const c_char, status: *const libc::stat, kind: c_int, position: *mut Position) -> c_int {
    let (Some(theirs), lost) = WALK.get() else { return 0 };
    // SAFETY: the C library passes a position that lives during the call.
    let mut moved = unsafe { *position };
    moved.base -= lost as c_int;
    // SAFETY: each path of the walk begins with the engine's folder, which has this length.
    unsafe { theirs(path.add(lost), status, kind, &raw mut moved) }
}

unsafe extern "C" fn visit_file(path: *const c_char, status: *const libc::stat, kind: c_int) -> c_int {
    let (Some(theirs), lost) = WALK_FILES.get() else { return 0 };
    // SAFETY: the engine's folder is the start of all paths below the walk's start.
    unsafe { theirs(path.add(lost), status, kind) }
}

/// Implements `nftw`.
///
/// # Safety
/// `function` has the type that `nftw` requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nftw(path: Text, function: Visit, descriptors: c_int, flags: c_int) -> c_int {
    let led = files::led(path);
    let Some(lost) = led.length_of_folder() else {
        // SAFETY: the function is the program's.
        return unsafe { real::nftw(path, function, descriptors, flags) };
    };
    let outer = WALK.replace((Some(function), lost));
    // SAFETY: our function has the type of a visit.
    let status = unsafe { real::nftw(led.path(), visit, descriptors, flags) };
    WALK.set(outer);
    status
}

/// Implements the name of `nftw` for large files.
///
/// # Safety
/// `function` has the type that `nftw` requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nftw64(path: Text, function: Visit, descriptors: c_int, flags: c_int) -> c_int {
    // SAFETY: `stat64` equals `stat` on this machine.
    unsafe { nftw(path, function, descriptors, flags) }
}

/// Implements `ftw`.
///
/// # Safety
/// `function` has the type that `ftw` requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftw(path: Text, function: VisitFile, descriptors: c_int) -> c_int {
    let led = files::led(path);
    let Some(lost) = led.length_of_folder() else {
        // SAFETY: the program's function goes on as it came.
        return unsafe { real::ftw(path, function, descriptors) };
    };
    let outer = WALK_FILES.replace((Some(function), lost));
    // SAFETY: our function takes the three arguments of a visit without a position.
    let status = unsafe { real::ftw(led.path(), visit_file, descriptors) };
    WALK_FILES.set(outer);
    status
}

/// Implements the name of `ftw` for large files.
///
/// # Safety
/// `function` has the type that `ftw` requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftw64(path: Text, function: VisitFile, descriptors: c_int) -> c_int {
    // SAFETY: both structures of a status are equal on this machine.
    unsafe { ftw(path, function, descriptors) }
}

/// Implements `fts_open`. Paths of the walk keep the engine's folder in front.
///
/// # Safety
/// The arguments are those of `fts_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fts_open(paths: Texts, options: c_int, compare: *mut c_void) -> *mut c_void {
    let led: Vec<_> = paths.iter().map(|path| files::led(Text::of(path))).collect();
    let list: Vec<*const c_char> = led.iter().map(|led| led.path().as_ptr()).chain([std::ptr::null()]).collect();
    // SAFETY: a null pointer ends the list, whose strings live until the call returns.
    unsafe { real::fts_open(Texts::from_raw(list.as_ptr()), options, compare) }
}
