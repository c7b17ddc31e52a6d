//! A command that a program of a fabric runs. The library of the fabric is in its process, and knows
//! the engine.

use anyhow::{anyhow, bail};
use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// Returns the library's function of this name, or `None` outside a fabric.
fn function(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is a string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Returns the address of the engine to whose fabric this process belongs.
pub(crate) fn engine() -> Option<String> {
    function(c"softband_shim_move")?;
    std::env::var(softband_engine::ENGINE_VARIABLE).ok()
}

/// Places the next image of this process on `host` of its own fabric.
pub(crate) fn move_to(host: &str) -> anyhow::Result<()> {
    let Some(found) = function(c"softband_shim_move") else { bail!("this process is on no fabric") };
    // SAFETY: the library defines this function with this type.
    let place: extern "C" fn(*const c_char) -> c_int = unsafe { std::mem::transmute(found) };
    match place(CString::new(host)?.as_ptr()) {
        0 => Ok(()),
        libc::ENOENT => Err(anyhow!("the fabric has no host `{host}`\n  help: `getent hosts NAME` on a host finds the others")),
        libc::EHOSTDOWN => Err(anyhow!("the host `{host}` has died")),
        -1 => Err(anyhow!("this process is on no fabric\n  help: start it by softband run or softband exec")),
        errno => Err(anyhow!("the engine refuses: {}", std::io::Error::from_raw_os_error(errno))),
    }
}

/// Lets the programs that this process starts belong to another fabric.
pub(crate) fn leave() {
    if let Some(found) = function(c"softband_shim_leave") {
        // SAFETY: the library defines this function with this type.
        let leave: extern "C" fn() -> c_int = unsafe { std::mem::transmute(found) };
        leave();
    }
}
