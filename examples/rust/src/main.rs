//! Sums on a server: the client sends numbers, and the server answers each with the sum so far.

use std::ffi::{CStr, CString, c_char, c_int};
use std::io::Error;
use std::ptr;

#[repr(C)]
struct Raw {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn endpoint_open(server: *const c_char, port: *const c_char) -> *mut Raw;
    fn endpoint_close(end: *mut Raw);
    fn endpoint_send(end: *mut Raw, word: u64) -> c_int;
    fn endpoint_receive(end: *mut Raw, word: *mut u64) -> c_int;
    fn ibv_wc_status_str(status: c_int) -> *const c_char;
}

const PORT: &CStr = c"7473";

struct Endpoint(*mut Raw);

impl Endpoint {
    /// Connects to a server. Without a server it waits for a client.
    fn open(server: Option<&str>) -> Result<Self, String> {
        let server = server.map(CString::new).transpose().map_err(|error| error.to_string())?;
        let name = server.as_ref().map_or(ptr::null(), |name| name.as_ptr());
        // SAFETY: Both texts end with a zero and outlive the call.
        let raw = unsafe { endpoint_open(name, PORT.as_ptr()) };
        if raw.is_null() { Err(format!("no connection: {}", Error::last_os_error())) } else { Ok(Self(raw)) }
    }

    fn send(&mut self, word: u64) -> Result<(), String> {
        // SAFETY: The endpoint is open until it is dropped.
        completed("send", unsafe { endpoint_send(self.0, word) })
    }

    fn receive(&mut self) -> Result<u64, String> {
        let mut word = 0;
        // SAFETY: The endpoint is open until it is dropped, and `word` outlives the call.
        completed("receive", unsafe { endpoint_receive(self.0, &raw mut word) })?;
        Ok(word)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // SAFETY: Nobody uses the endpoint after its end.
        unsafe { endpoint_close(self.0) }
    }
}

fn completed(step: &str, status: c_int) -> Result<(), String> {
    match status {
        0 => Ok(()),
        status if status < 0 => Err(format!("{step}: {}", Error::last_os_error())),
        // SAFETY: The library returns a constant text for each number.
        status => Err(format!("{step}: {}", unsafe { CStr::from_ptr(ibv_wc_status_str(status)) }.to_string_lossy())),
    }
}

fn run(count: u64, server: Option<&str>) -> Result<(), String> {
    let mut end = Endpoint::open(server)?;
    let mut sum = 0;
    for number in 1..=count {
        if server.is_some() {
            end.send(number)?;
            sum = end.receive()?;
        } else {
            sum += end.receive()?;
            end.send(sum)?;
        }
    }
    println!("the sum is {sum}");
    Ok(())
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(count) = words.first().and_then(|word| word.parse().ok()) else {
        eprintln!("usage: counter COUNT [SERVER]");
        std::process::exit(2);
    };
    if let Err(error) = run(count, words.get(1).map(String::as_str)) {
        eprintln!("counter: {error}");
        std::process::exit(1);
    }
}
