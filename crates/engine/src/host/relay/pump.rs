//! A direction of a relayed connection: bytes from one end to the other, without input and output of
//! its own.
//!
//! It holds at most one piece, and takes the next when the other end has all of it. So a full end
//! stops the other one.

/// Most bytes of a piece.
pub(super) const PIECE_BYTES: usize = 64 << 10;

/// What an end gives.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// Bytes, at least one.
    Piece(Vec<u8>),
    /// Nothing until the next news of this end.
    Nothing,
    /// Nothing until a later time, without news.
    Later,
    /// The other side of this end sends no more.
    End,
    /// The connection is broken.
    Broken,
}

/// What an end does with bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// It takes so many, at least one.
    Taken(usize),
    /// It has no room until its next news.
    Full,
    /// It takes none until a later time, without news.
    Later,
    /// The connection is broken.
    Broken,
}

/// An end from which bytes come.
pub(super) trait Source {
    fn give(&mut self) -> Given;
}

/// An end to which bytes go.
pub(super) trait Sink {
    fn put(&mut self, bytes: &[u8]) -> Put;
    /// Tells the end that no more bytes come.
    fn end(&mut self);
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Bytes or an end moved, so another step may move more.
    Moved,
    /// Both ends must have news first, or time must pass.
    Rests,
    Broken,
}

/// State of a direction.
#[derive(Debug, Default)]
pub(super) struct Direction {
    piece: Vec<u8>,
    /// Bytes of the piece that the sink has.
    taken: usize,
    has_ended: bool,
    is_over: bool,
    awaits_source: bool,
    awaits_sink: bool,
}

impl Direction {
    /// Notes news of the source.
    pub(super) fn source_has_news(&mut self) {
        self.awaits_source = false;
    }

    /// Notes news of the sink.
    pub(super) fn sink_has_news(&mut self) {
        self.awaits_sink = false;
    }

    /// Returns whether the direction stands still until news of an end.
    pub(super) fn awaits_news(&self) -> bool {
        if self.piece.is_empty() { self.awaits_source } else { self.awaits_sink }
    }

    /// Returns whether the sink knows the end.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Moves up to one piece.
    pub(super) fn step(&mut self, source: &mut impl Source, sink: &mut impl Sink) -> Step {
        if self.piece.is_empty() && !self.has_ended {
            if self.awaits_source {
                return Step::Rests;
            }
            match source.give() {
                Given::Piece(piece) => (self.piece, self.taken) = (piece, 0),
                Given::Nothing => self.awaits_source = true,
                Given::Later => {}
                Given::End => self.has_ended = true,
                Given::Broken => return Step::Broken,
            }
        }
        if self.piece.is_empty() {
            let ends = self.has_ended && !self.is_over;
            if ends {
                sink.end();
                self.is_over = true;
            }
            return if ends { Step::Moved } else { Step::Rests };
        }
        if self.awaits_sink {
            return Step::Rests;
        }
        match sink.put(&self.piece[self.taken..]) {
            Put::Taken(count) => {
                self.taken += count;
                if self.taken >= self.piece.len() {
                    self.piece = Vec::new();
                }
                Step::Moved
            }
            Put::Full => {
                self.awaits_sink = true;
                Step::Rests
            }
            Put::Later => Step::Rests,
            Put::Broken => Step::Broken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[derive(Default)]
    struct Tape(VecDeque<Given>);
    impl Source for Tape {
        fn give(&mut self) -> Given {
            self.0.pop_front().unwrap_or(Given::Nothing)
        }
    }

    #[derive(Default)]
    struct Room {
        bytes: Vec<u8>,
        room: usize,
        ends: u32,
        is_broken: bool,
    }
    impl Sink for Room {
        fn put(&mut self, bytes: &[u8]) -> Put {
            let count = bytes.len().min(self.room);
            self.room -= count;
            self.bytes.extend_from_slice(&bytes[..count]);
            match count {
                _ if self.is_broken => Put::Broken,
                0 => Put::Full,
                count => Put::Taken(count),
            }
        }
        fn end(&mut self) {
            self.ends += 1;
        }
    }

    fn piece(bytes: &[u8]) -> Given {
        Given::Piece(bytes.to_vec())
    }

    #[test]
    fn a_full_sink_stops_the_source_and_no_byte_is_lost() {
        let (mut tape, mut room) = (Tape([piece(b"abc"), piece(b"de"), Given::End].into()), Room { room: 2, ..Room::default() });
        let mut direction = Direction::default();
        assert_eq!([(); 3].map(|()| direction.step(&mut tape, &mut room)), [Step::Moved, Step::Rests, Step::Rests]);
        assert_eq!((tape.0.len(), room.bytes.as_slice()), (2, &b"ab"[..]));
        room.room = 99;
        assert_eq!(direction.step(&mut tape, &mut room), Step::Rests);
        direction.sink_has_news();
        assert_eq!([(); 4].map(|()| direction.step(&mut tape, &mut room)), [Step::Moved, Step::Moved, Step::Moved, Step::Rests]);
        assert_eq!((room.bytes.as_slice(), room.ends, direction.is_over()), (&b"abcde"[..], 1, true));
    }

    #[test]
    fn the_end_comes_after_the_last_byte_and_once() {
        let (mut tape, mut room) = (Tape([piece(b"x"), Given::End].into()), Room::default());
        let mut direction = Direction::default();
        direction.step(&mut tape, &mut room);
        assert_eq!((direction.step(&mut tape, &mut room), room.ends), (Step::Rests, 0));
        room.room = 1;
        direction.sink_has_news();
        (0..5).for_each(|_| assert_ne!(direction.step(&mut tape, &mut room), Step::Broken));
        assert_eq!((room.bytes.as_slice(), room.ends), (&b"x"[..], 1));
    }

    #[test]
    fn an_empty_source_is_asked_again_only_after_news_but_a_busy_one_at_any_time() {
        let (mut tape, mut room) = (Tape([Given::Later, Given::Nothing, piece(b"y")].into()), Room { room: 9, ..Room::default() });
        let mut direction = Direction::default();
        assert_eq!([(); 3].map(|()| direction.step(&mut tape, &mut room)), [Step::Rests; 3]);
        assert_eq!(tape.0.len(), 1);
        direction.source_has_news();
        assert_eq!((direction.step(&mut tape, &mut room), room.bytes.as_slice()), (Step::Moved, &b"y"[..]));
    }

    #[test]
    fn a_broken_end_breaks_the_connection() {
        let (mut tape, mut room) = (Tape([piece(b"z"), Given::Broken].into()), Room { is_broken: true, ..Room::default() });
        assert_eq!(Direction::default().step(&mut tape, &mut room), Step::Broken);
        assert_eq!(Direction::default().step(&mut tape, &mut room), Step::Broken);
    }
}
