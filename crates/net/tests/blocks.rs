//! Selective acknowledgements on data.

use crate::common::{CLIENT, Net, SERVER, Wire, kernel};
use softband_net::Body;
use softband_sim::SimDuration;
use std::cell::RefCell;
use std::rc::Rc;

#[test]
fn full_packets_make_room_for_the_blocks_that_are_due() {
    let kernel = kernel("linux-6.1");
    let mut net = Net::new([&kernel, &kernel], Wire::new(1_000, SimDuration::from_micros(2_000)), 5);
    let (client, server) = net.pair(&[]);
    let mut is_first = true;
    net.drop = Some(Box::new(move |host, packet| host == CLIENT && packet.payload_bytes() > 0 && std::mem::take(&mut is_first)));
    let sizes = Rc::new(RefCell::new(Vec::new()));
    let log = sizes.clone();
    net.tap = Some(Box::new(move |_, host, packet| {
        if let Body::Tcp(segment) = &packet.body
            && host == SERVER
            && !segment.payload.is_empty()
        {
            log.borrow_mut().push((segment.options.sack.as_slice().len(), packet.wire_bytes()));
        }
    }));
    net.send(CLIENT, client, &[0; 10_000]).unwrap();
    // The data behind the gap has arrived, and the gap has not closed.
    net.run_for(SimDuration::from_micros(2_500));
    assert_eq!(net.info(SERVER, server).unread_bytes, 0);
    net.send(SERVER, server, &[0; 10_000]).unwrap();
    net.run_for(SimDuration::from_micros(500));
    let sizes = sizes.borrow();
    assert_eq!(sizes[..6], [(1, 1_500); 6], "{sizes:?}");
}
