//! Runs the program on two hosts.

use softband_test::{Error, Fabric, Outcome, Pace};
use std::time::Duration;

fn sum(fabric: &Fabric, count: u32) -> Result<Outcome, Error> {
    let program = format!("{} {count}", env!("CARGO_BIN_EXE_counter"));
    fabric.run(&[("a", &program), ("b", &format!("{program} a"))])
}

fn text(outcome: &Outcome) -> &str {
    &outcome.assert_success().program("b").output
}

#[test]
fn both_clocks_give_the_sum() {
    for pace in [Pace::Virtual, Pace::Wall] {
        assert_eq!(text(&sum(&Fabric::named("default").pace(pace), 100).unwrap()), "the sum is 5050\n");
    }
}

#[test]
fn a_lost_packet_is_sent_again() {
    let fabric = Fabric::named("default").faults("[[faults]]\nkind = \"drop\"\nport = \"a/mlx5_0/1\"\npacket = \"send\"\nnumber = 9\n");
    let outcome = sum(&fabric, 100).unwrap();
    assert_eq!(text(&outcome), "the sum is 5050\n");
    assert!(outcome.messages.contains("a/mlx5_0 sent again 1 time"), "{}", outcome.messages);
}

#[test]
fn a_broken_link_is_reported() {
    let fabric = Fabric::named("default").faults("[[faults]]\nkind = \"link_down\"\nlink = \"b/mlx5_0/1\"\nat = \"700 us\"\n");
    let outcome = sum(&fabric, 1_000_000).unwrap();
    // The sender of the lost message reports it: the client or the server.
    let errors: String = outcome.programs.iter().map(|program| program.errors.as_str()).collect();
    assert!(outcome.status != 0 && errors.contains("counter: send: transport retry counter exceeded\n"), "{errors}");
}

#[test]
fn a_fabric_stays_until_it_is_dropped() {
    let mut fabric = Fabric::named("default").up().unwrap();
    let program = env!("CARGO_BIN_EXE_counter");
    let server = fabric.spawn("a", &[program, "10"]).unwrap();
    let client = fabric.spawn("b", &[program, "10", "a"]).unwrap().wait().unwrap();
    assert_eq!((client.status, client.output.as_str()), (0, "the sum is 55\n"));
    assert_eq!(server.wait().unwrap().status, 0);
    fabric.fault(&["link-down", "b/mlx5_0/1"]).unwrap();
    assert!(fabric.fault(&["link-down", "nowhere"]).unwrap_err().to_string().contains("nowhere"));
    let devices = fabric.spawn("b", &["ibv_devinfo"]).unwrap().wait().unwrap();
    assert!(devices.output.contains("PORT_DOWN"), "{}", devices.output);
}

#[test]
fn a_server_without_a_client_meets_the_time_limit() {
    let fabric = Fabric::named("default").pace(Pace::Wall).timeout(Duration::from_secs(1));
    let program = format!("{} 1", env!("CARGO_BIN_EXE_counter"));
    assert!(matches!(fabric.run(&[("a", &program)]), Err(Error::TimeLimit(_))));
    assert!(matches!(Fabric::named("no-such-fabric").run(&[("a", "true")]), Err(Error::Refused(_))));
}
