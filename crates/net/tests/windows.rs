//! Windows that close and open again.

mod common;

use common::{CLIENT, Net, SERVER, Wire, kernel};
use softband_net::calls::SocketOption;
use softband_sim::SimDuration;

const MILLI: SimDuration = SimDuration::from_micros(1_000);

#[test]
fn an_open_window_ends_the_doubled_times_of_its_probes() {
    let kernel = kernel("linux-6.1");
    let mut net = Net::new([&kernel, &kernel], Wire::new(1_000, SimDuration::from_micros(25)), 5);
    let (client, server) = net.pair(&[SocketOption::ReceiveBuffer(20_000)]);
    for _ in 0..50 {
        while net.send(CLIENT, client, &[0; 10_000]).is_ok() {}
        net.run_for(MILLI);
    }
    // The window stays closed for many probes.
    net.run_for(MILLI * 20_000);
    let closed = net.info(CLIENT, client);
    assert!(closed.peer_window < closed.mss && closed.in_flight == 0, "{closed:?}");
    // The news of the open window arrives, and the data that it lets go is lost.
    let mut left = 1;
    net.drop = Some(Box::new(move |host, packet| host == CLIENT && packet.payload_bytes() > 0 && std::mem::replace(&mut left, 0) == 1));
    let lost = net.lost;
    while net.receive(SERVER, server, 1 << 20).is_ok() {}
    let begin = net.now;
    while net.info(CLIENT, client).retransmissions == 0 {
        net.step().expect("a retransmission");
    }
    assert_eq!(net.lost, lost + 1);
    let took = (net.now - begin).as_nanos() / 1_000_000;
    assert!(took <= 250, "the data came again after {took} ms");
}
