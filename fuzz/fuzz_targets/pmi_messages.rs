//! Arbitrary bytes from the ranks of a job to its server: answers or a closed connection, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use softband_pmi::event::Event;
use softband_pmi::job::{Action, Job};
use softband_pmi::lines::Lines;
use softband_pmi::mapping;

const RANKS: usize = 3;

fuzz_target!(|bytes: &[u8]| {
    let mut job = Job::new(&[0, 0, 1]);
    let mut streams: Vec<Lines> = (0..RANKS).map(|_| Lines::default()).collect();
    (0..RANKS).for_each(|rank| job.connected(rank));
    // The first byte of each part selects the connection.
    for part in bytes.split(|byte| *byte == 0) {
        let Some((first, rest)) = part.split_first() else { continue };
        let from = usize::from(*first) % (RANKS + 1);
        let Some(lines) = streams.get_mut(from) else {
            job.closed(usize::from(*first) / RANKS % RANKS);
            continue;
        };
        lines.add(rest);
        loop {
            let actions = match lines.take() {
                Ok(None) => break,
                Ok(Some(line)) => job.line(from, &line),
                Err(_) => {
                    job.unreadable(from);
                    *lines = Lines::default();
                    break;
                }
            };
            for action in actions {
                if let Action::Report(event) = action {
                    assert_eq!(Event::parse(&event.to_string()), Some(event));
                }
            }
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Event::parse(text);
        if let Some(hosts) = mapping::hosts_of(text, RANKS) {
            assert_eq!(mapping::hosts_of(&mapping::text(&hosts).unwrap(), RANKS), Some(hosts));
        }
    }
});
