//! A leg of a relayed connection: a socket of the machine that leads to a program, and a socket of the
//! program's host in the model. A connection has a leg for each of its programs. The legs know
//! nothing of each other, because only the model lies between them.

use super::model::{Model, Stream, Thread};
use super::native;
use super::pump::{Direction, Given, PIECE_BYTES, Put, Sink, Source, Step};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use softband_net::SocketId;
use softband_sim::SimTime;

/// Most pieces that a leg moves in each direction before others have their turn.
const PIECES_PER_TURN: u32 = 8;

/// State of a leg after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// It has more to move at once.
    Goes,
    /// It waits for news, or until a time.
    Rests(Option<SimTime>),
    /// It has ended in order, or broken.
    Over,
}

/// End of a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Program,
    Model,
}

#[derive(Debug)]
pub(super) struct Leg {
    pub(super) host: usize,
    pub(super) socket: SocketId,
    /// The program is the client of the connection.
    pub(super) is_client: bool,
    program: OwnedFd,
    /// The end at which the connection is not complete.
    connecting: Option<Side>,
    outward: Direction,
    inward: Direction,
    writer: Thread,
    reader: Thread,
}

impl Leg {
    /// Makes a leg. The connection at one of its ends has begun.
    pub(super) fn new((host, socket): (usize, SocketId), program: OwnedFd, connecting: Side) -> Self {
        let (outward, inward) = (Direction::default(), Direction::default());
        let (writer, reader) = (Thread::default(), Thread::default());
        let is_client = connecting == Side::Model;
        Self { host, socket, is_client, program, connecting: Some(connecting), outward, inward, writer, reader }
    }

    pub(super) fn program(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }

    /// Notes news of the program's socket.
    pub(super) fn program_has_news(&mut self) {
        self.outward.source_has_news();
        self.inward.sink_has_news();
    }

    /// Notes news of the model's socket.
    pub(super) fn model_has_news(&mut self) {
        self.outward.sink_has_news();
        self.inward.source_has_news();
    }

    /// Moves bytes both ways.
    pub(super) fn turn(&mut self, model: &mut Model<'_>, room: &mut [u8; PIECE_BYTES]) -> After {
        match self.connecting.and_then(|side| self.still_connects(side, model)) {
            Some(after) => return after,
            None => self.connecting = None,
        }
        let mut moves = false;
        for _ in 0..PIECES_PER_TURN {
            let outward = self.move_outward(model, room);
            // A broken socket of the model tells its error once, and then an end in order.
            if outward == Step::Broken {
                return After::Over;
            }
            let inward = self.move_inward(model);
            if inward == Step::Broken {
                return After::Over;
            }
            moves = [outward, inward].contains(&Step::Moved);
            if !moves {
                break;
            }
        }
        if self.is_over() {
            return After::Over;
        }
        if self.outward.awaits_news() {
            self.writer.rests();
        }
        if self.inward.awaits_news() {
            self.reader.rests();
        }
        let times = [self.writer, self.reader].into_iter().filter_map(|thread| thread.busy_until(model.now));
        if moves { After::Goes } else { After::Rests(times.min()) }
    }

    /// Returns the state of a leg whose connection is not complete at an end.
    fn still_connects(&mut self, side: Side, model: &mut Model<'_>) -> Option<After> {
        match side {
            Side::Program => match native::outcome(&self.program) {
                None => Some(After::Rests(None)),
                Some(Ok(())) => None,
                Some(Err(_)) => Some(After::Over),
            },
            // The host could not end a direction before the handshake.
            Side::Model if model.is_connected(self.host, self.socket) => None,
            Side::Model => Some(match self.move_inward(model) {
                Step::Broken => After::Over,
                Step::Moved => After::Goes,
                Step::Rests => After::Rests(None),
            }),
        }
    }

    fn move_outward(&mut self, model: &mut Model<'_>, room: &mut [u8; PIECE_BYTES]) -> Step {
        let mut stream = Stream { model, host: self.host, socket: self.socket, thread: &mut self.writer };
        self.outward.step(&mut FromProgram(self.program.as_fd(), room), &mut stream)
    }

    fn move_inward(&mut self, model: &mut Model<'_>) -> Step {
        let mut stream = Stream { model, host: self.host, socket: self.socket, thread: &mut self.reader };
        self.inward.step(&mut stream, &mut ToProgram(self.program.as_fd()))
    }

    fn is_over(&self) -> bool {
        self.outward.is_over() && self.inward.is_over()
    }

    /// Ends both sockets: in order if both directions have ended, else by a reset.
    pub(super) fn finish(self, model: &mut Model<'_>) {
        if self.is_over() {
            model.close(self.host, self.socket);
        } else {
            model.reset(self.host, self.socket);
            native::reset(self.program);
        }
    }
}

struct FromProgram<'a>(BorrowedFd<'a>, &'a mut [u8; PIECE_BYTES]);

impl Source for FromProgram<'_> {
    fn give(&mut self) -> Given {
        match native::read(self.0, self.1) {
            Ok(0) => Given::End,
            Ok(count) => Given::Piece(self.1[..count].to_vec()),
            Err(Errno::AGAIN) => Given::Nothing,
            Err(Errno::INTR) => Given::Later,
            Err(_) => Given::Broken,
        }
    }
}

struct ToProgram<'a>(BorrowedFd<'a>);

impl Sink for ToProgram<'_> {
    fn put(&mut self, bytes: &[u8]) -> Put {
        match native::write(self.0, bytes) {
            Ok(count) => Put::Taken(count),
            Err(Errno::AGAIN) => Put::Full,
            Err(Errno::INTR) => Put::Later,
            Err(_) => Put::Broken,
        }
    }

    fn end(&mut self) {
        native::end(self.0);
    }
}
