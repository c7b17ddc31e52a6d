//! Arbitrary bytes as a message of SDP: a message that has the same bytes again, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use softband_net::sdp::Message;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((message, base, data)) = Message::decode(bytes) {
        let mut again = message.encode(base);
        again.extend(data);
        let (message_again, base_again, data_again) = Message::decode(&again).expect("an own message");
        assert_eq!((message, base, data), (message_again, base_again, data_again));
    }
});
