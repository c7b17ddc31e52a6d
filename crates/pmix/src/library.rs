//! The PMIx library of a program, loaded at run time.

use crate::abi::{Done, Handler, Info, Module, Proc, Status};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;

type ServerInit = unsafe extern "C" fn(*mut Module, *const Info, usize) -> Status;
type RegisterJob = unsafe extern "C" fn(*const u8, c_int, *const Info, usize, Done, *mut c_void) -> Status;
type RegisterClient = unsafe extern "C" fn(*const Proc, libc::uid_t, libc::gid_t, *mut c_void, Done, *mut c_void) -> Status;
type SetupFork = unsafe extern "C" fn(*const Proc, *mut *mut *mut c_char) -> Status;
type RegisterHandler = unsafe extern "C" fn(*mut Status, usize, *mut Info, usize, Handler, Registered, *mut c_void) -> Status;
type ErrorString = unsafe extern "C" fn(Status) -> *const c_char;
type Registered = Option<unsafe extern "C" fn(Status, usize, *mut c_void)>;

/// Functions of the server side, with the signatures of `pmix_server.h`.
pub(crate) struct Library {
    pub(crate) server_init: ServerInit,
    pub(crate) register_job: RegisterJob,
    pub(crate) register_client: RegisterClient,
    pub(crate) setup_fork: SetupFork,
    pub(crate) register_handler: RegisterHandler,
    error_string: ErrorString,
}

impl Library {
    /// Loads a library.
    ///
    /// # Errors
    /// If there is no such library, or it is no PMIx of version 4 or later. The text says why.
    pub(crate) fn load(path: &Path) -> Result<Self, String> {
        let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| format!("{} is no path", path.display()))?;
        // SAFETY: the path is a C string. The library's own start code runs, as in the ranks. Components
        // of the library look for its functions among the global ones.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if handle.is_null() {
            // SAFETY: a failed dlopen leaves a text, which this thread reads before its next call.
            let reason = unsafe { text(libc::dlerror()) };
            return Err(format!("cannot load {}: {reason}", path.display()));
        }
        let find = |symbol: &CStr| {
            // SAFETY: the handle is that of a loaded library, and the name a C string.
            let found = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
            if found.is_null() { Err(format!("{} has no {}", path.display(), symbol.to_string_lossy())) } else { Ok(found) }
        };
        macro_rules! function {
            ($symbol:literal, $signature:ty) => {{
                let found = find($symbol)?;
                // SAFETY: the type is the signature of the function of this name since PMIx 4, and a
                // library that was loaded stays.
                unsafe { std::mem::transmute::<*mut c_void, $signature>(found) }
            }};
        }
        Ok(Self {
            server_init: function!(c"PMIx_server_init", ServerInit),
            register_job: function!(c"PMIx_server_register_nspace", RegisterJob),
            register_client: function!(c"PMIx_server_register_client", RegisterClient),
            setup_fork: function!(c"PMIx_server_setup_fork", SetupFork),
            register_handler: function!(c"PMIx_Register_event_handler", RegisterHandler),
            error_string: function!(c"PMIx_Error_string", ErrorString),
        })
    }

    /// Describes the failure of a function.
    pub(crate) fn check(&self, what: &str, status: Status) -> Result<(), String> {
        if status == crate::abi::SUCCESS || status == crate::abi::OPERATION_SUCCEEDED {
            return Ok(());
        }
        // SAFETY: the function takes any number, and returns a text that stays.
        let reason = unsafe { text((self.error_string)(status)) };
        Err(format!("PMIx cannot {what}: {reason}"))
    }
}

/// Copies a C string. Null is an empty text.
///
/// # Safety
/// `from` is null or a C string.
unsafe fn text(from: *const c_char) -> String {
    if from.is_null() {
        return String::new();
    }
    // SAFETY: the caller names a C string, which is not null.
    unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_libraries_are_refused_with_the_reason() {
        let absent = Library::load(Path::new("/nonexistent/libpmix.so.2")).err().unwrap();
        assert!(absent.starts_with("cannot load /nonexistent/libpmix.so.2: "), "{absent}");
        let other = Library::load(Path::new("libm.so.6")).err().unwrap();
        assert_eq!(other, "libm.so.6 has no PMIx_server_init");
    }
}
