//! Links bring any bytes to a host. They are an error, or a frame that is written and read alike.

#![no_main]

#[path = "../../crates/net/tests/common/sums.rs"]
mod sums;

use libfuzzer_sys::fuzz_target;
use softband_net::wire;

fuzz_target!(|input: &[u8]| {
    // Few inputs have right checksums by chance, and those with wrong ones end at once.
    read_back(input);
    let mut mended = input.to_vec();
    sums::mend(&mut mended);
    read_back(&mended);
});

fn read_back(input: &[u8]) {
    let Ok(frame) = wire::decode(input) else { return };
    let mut bytes = Vec::new();
    wire::encode(&frame, &mut bytes).expect("a frame that was read has bytes");
    assert_eq!(bytes.len() as u64, frame.wire_bytes());
    let mut again = Vec::new();
    wire::encode(&wire::decode(&bytes).expect("a frame that was written"), &mut again).expect("a frame");
    assert_eq!(bytes, again);
}
