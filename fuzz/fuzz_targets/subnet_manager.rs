//! Nodes answer the built-in subnet manager with anything. Each sweep ends.

#![no_main]

use libfuzzer_sys::fuzz_target;
use softband_model::management::Routing;
use softband_model::management::manager::{Configuration, Manager};
use softband_sim::SimTime;
use softband_wire::mad::{Header, Layout, Method, Status};

// Input: the routing engine, then the data of each answer. An empty input answers nothing.
fuzz_target!(|input: &[u8]| {
    let Some((engine, mut rest)) = input.split_first() else { return };
    let routing = Routing::ALL[usize::from(*engine) % Routing::ALL.len()];
    let mut manager = Manager::new(Configuration { routing, retries: 0, ..Configuration::default() }, 1);
    manager.start(SimTime::ZERO);
    while let Some((_, mut packet)) = manager.poll_transmit() {
        if rest.is_empty() {
            continue;
        }
        let len = rest.len().min(64);
        Header::view_mut(&mut packet.mad[..]).method(Method::GET_RESP).status(Status(Status::DIRECTION));
        packet.mad[64..64 + len].copy_from_slice(&rest[..len]);
        rest = &rest[len..];
        manager.handle_packet(0, &packet, SimTime::ZERO);
    }
    while let Some(at) = manager.poll_timeout() {
        manager.handle_timeout(at);
        while manager.poll_transmit().is_some() {}
    }
    assert!(manager.is_idle());
});
