//! Warnings to the program's standard error.

use std::sync::Mutex;

static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Writes `softband: MESSAGE` to standard error, once for each message.
pub fn once(message: &str) {
    let Ok(mut said) = SAID.lock() else { return };
    if said.iter().any(|former| former == message) {
        return;
    }
    said.push(message.to_owned());
    drop(said);
    always(message);
}

/// Writes `softband: MESSAGE` to standard error.
pub fn always(message: &str) {
    let line = format!("softband: {message}\n");
    let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
}
