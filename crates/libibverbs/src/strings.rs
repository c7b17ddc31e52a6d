//! Names of numbers, for programs that print them.

use libc::{c_char, c_int};
use std::ffi::CStr;

const UNKNOWN: &CStr = c"unknown";

/// Names of node types from 1 on.
const NODE_TYPES: [&CStr; 7] =
    [c"InfiniBand channel adapter", c"InfiniBand switch", c"InfiniBand router", c"iWARP NIC", c"usNIC", c"usNIC UDP", c"unspecified"];

const PORT_STATES: [&CStr; 6] = [c"no state change (NOP)", c"down", c"init", c"armed", c"active", c"active defer"];

const EVENTS: [&CStr; 20] = [
    c"CQ error",
    c"local work queue catastrophic error",
    c"invalid request local work queue error",
    c"local access violation work queue error",
    c"communication established",
    c"send queue drained",
    c"path migrated",
    c"path migration request error",
    c"local catastrophic error",
    c"port active",
    c"port error",
    c"LID change",
    c"P_Key change",
    c"SM change",
    c"SRQ catastrophic error",
    c"SRQ limit reached",
    c"last WQE reached",
    c"client reregistration",
    c"GID table change",
    c"WQ fatal",
];

const STATUSES: [&CStr; 24] = [
    c"success",
    c"local length error",
    c"local QP operation error",
    c"local EE context operation error",
    c"local protection error",
    c"Work Request Flushed Error",
    c"memory management operation error",
    c"bad response error",
    c"local access error",
    c"remote invalid request error",
    c"remote access error",
    c"remote operation error",
    c"transport retry counter exceeded",
    c"RNR retry counter exceeded",
    c"local RDD violation error",
    c"remote invalid RD request",
    c"aborted error",
    c"invalid EE context number",
    c"invalid EE context state",
    c"fatal error",
    c"response timeout error",
    c"general error",
    c"TM error",
    c"TM software rendezvous",
];

fn word(words: &[&'static CStr], number: c_int) -> *const c_char {
    usize::try_from(number).ok().and_then(|number| words.get(number)).copied().unwrap_or(UNKNOWN).as_ptr()
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_node_type_str(node_type: c_int) -> *const c_char {
    word(&NODE_TYPES, node_type.saturating_sub(1))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_port_state_str(state: c_int) -> *const c_char {
    word(&PORT_STATES, state)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_event_type_str(event: c_int) -> *const c_char {
    word(&EVENTS, event)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_wc_status_str(status: c_int) -> *const c_char {
    word(&STATUSES, status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_abi::verbs::{IBV_EVENT_WQ_FATAL, IBV_NODE_CA, IBV_PORT_ACTIVE, IBV_WC_RETRY_EXC_ERR};

    fn text(words: *const c_char) -> &'static str {
        // SAFETY: every result is one of the constants above.
        unsafe { CStr::from_ptr(words) }.to_str().expect("ASCII")
    }

    #[test]
    fn numbers_have_the_words_that_people_search_for() {
        assert_eq!(text(ibv_node_type_str(IBV_NODE_CA as c_int)), "InfiniBand channel adapter");
        assert_eq!(text(ibv_port_state_str(IBV_PORT_ACTIVE as c_int)), "active");
        assert_eq!(text(ibv_event_type_str(IBV_EVENT_WQ_FATAL as c_int)), "WQ fatal");
        assert_eq!(text(ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR as c_int)), "transport retry counter exceeded");
        for unknown in [ibv_node_type_str(0), ibv_node_type_str(-1), ibv_wc_status_str(99), ibv_port_state_str(-5)] {
            assert_eq!(text(unknown), "unknown");
        }
    }
}
