//! Time for computation: the factor of this process, and the functions of `tools/mpirecord`.

use softband_client as client;
use softband_ipc::environment::COMPUTE;

/// Reads how computation takes time in this process.
pub(crate) fn begin() {
    let Some(text) = std::env::var_os(COMPUTE).and_then(|text| text.into_string().ok()) else { return };
    let Some((way, factor)) = text.split_once(':') else { return };
    if let Ok(factor) = factor.parse() {
        client::set_computation(factor, way == "measured");
    }
}

/// Advances the caller's clock by recorded computation, in picoseconds of the recording machine.
#[unsafe(no_mangle)]
pub extern "C" fn softband_compute_ps(picos: u64) {
    if crate::runtime::world::active() {
        client::advance_by_computation(picos);
    }
}

/// Returns the caller's processor time by the machine's clock, in nanoseconds.
#[unsafe(no_mangle)]
pub extern "C" fn softband_thread_cpu_ns() -> u64 {
    client::thread_cpu_ns()
}
