//! A connection manager under arbitrary MADs of peers and arbitrary commands of its program.

use super::harness::Harness;
use softband_ipc::calls::{CmCommand, Op};
use softband_spec::FabricSpec;
use softband_wire::mad::{AttributeId, MAD_BYTES};

/// Numbers of commands (`enum rdma_ucm_cmd`).
const CREATE: u32 = 0;
const BIND: u32 = 2;
const RESOLVE_ADDRESS: u32 = 3;
const RESOLVE_ROUTE: u32 = 4;
const CONNECT: u32 = 6;
const LISTEN: u32 = 7;
const GET_EVENT: u32 = 12;
const QUERY: u32 = 19;
/// Room for each reply.
const ROOM: u32 = 512;
/// Bytes of the longest command, with room for the value of an option.
const COMMAND_BYTES: usize = 400;
const CONNECT_REQUEST: u32 = 4;
const TCP: u16 = 0x106;
const UDP: u16 = 0x111;
/// Address of the program's own host.
const OWN: [u8; 4] = [198, 18, 0, 1];
const PORT: u16 = 7471;
/// Bytes of the header of all MADs (IBTA 13.4.3).
const HEADER_BYTES: usize = 24;

/// Kinds of a step of the input: the first byte modulo their number.
pub mod step {
    /// The bytes arrive as a MAD.
    pub const MAD: u8 = 0;
    /// A message of communication management arrives: its attribute, then its fields.
    pub const MESSAGE: u8 = 1;
    /// The program writes a command: its number, then its bytes.
    pub const COMMAND: u8 = 2;
    /// Events happen.
    pub const EVENTS: u8 = 3;
    /// Number of the kinds.
    pub const KINDS: u8 = 4;
}

/// A channel of a program.
struct Channel<'a> {
    harness: &'a mut Harness,
    object: u32,
}

/// Carries out an input: steps with their kind, the number of their bytes, and the bytes. The manager
/// then still makes connections of an honest program.
///
/// # Panics
/// If the manager has suffered.
pub fn survive(spec: &FabricSpec, input: &[u8]) {
    let mut harness = Harness::new(spec);
    let mut channel = Channel::open(&mut harness);
    for (space, port) in [(TCP, PORT), (UDP, PORT)] {
        let listener = channel.create(space).expect("room");
        assert!(channel.command(BIND, &bind(listener, [0; 4], port)).is_some());
        assert!(channel.command(LISTEN, &words(&[listener, 8])).is_some());
        channel.begin_connection(space, port).expect("a route");
    }
    let mut rest = input;
    while let [kind, len, tail @ ..] = rest {
        let bytes = &tail[..usize::from(*len).min(tail.len())];
        rest = &tail[bytes.len()..];
        channel.take_step(*kind, bytes);
    }
    channel.harness.step(64);
    Channel::open(&mut harness).connect_honestly();
}

impl<'a> Channel<'a> {
    fn open(harness: &'a mut Harness) -> Self {
        assert_eq!(harness.call(Op::CmOpen as u32, &[], &[]), 0);
        let object = word(&harness.reply(), 0);
        Self { harness, object }
    }

    fn take_step(&mut self, kind: u8, bytes: &[u8]) {
        match (kind % step::KINDS, bytes) {
            (step::MAD, _) => self.harness.arrive_at_manager(bytes),
            (step::MESSAGE, [attribute, fields @ ..]) => self.harness.arrive_at_manager(&message(*attribute, fields)),
            (step::COMMAND, [number, body @ ..]) => {
                let mut command = [0; COMMAND_BYTES];
                let len = body.len().min(COMMAND_BYTES);
                command[..len].copy_from_slice(&body[..len]);
                // The numbers of commands end at 22.
                self.command(u32::from(*number) % 24, &command);
            }
            _ => self.harness.step(8),
        }
        self.harness.step(2);
    }

    /// Writes a command. Returns the reply if it succeeds.
    fn command(&mut self, number: u32, body: &[u8]) -> Option<Vec<u8>> {
        let head = CmCommand { object: self.object, number, len: body.len() as u32, room: ROOM };
        let request = [bytemuck::bytes_of(&head), body].concat();
        (self.harness.call(Op::CmCommand as u32, &request, &[]) == 0).then(|| self.harness.reply()[8..].to_vec())
    }

    fn create(&mut self, space: u16) -> Option<u32> {
        let mut body = [0; 24];
        body[0] = 1;
        body[16..18].copy_from_slice(&space.to_ne_bytes());
        self.command(CREATE, &body).map(|reply| word(&reply, 0))
    }

    /// Sends a request from a new identifier to the host itself. Returns the identifier.
    fn begin_connection(&mut self, space: u16, port: u16) -> Option<u32> {
        let id = self.create(space)?;
        let mut body = [0; 64];
        body[28..36].copy_from_slice(&sockaddr(OWN, port));
        body[56..60].copy_from_slice(&id.to_ne_bytes());
        self.command(RESOLVE_ADDRESS, &body)?;
        self.command(RESOLVE_ROUTE, &words(&[id, 1_000]))?;
        let mut body = [0; 288];
        // The parameters are valid, and the identifier follows them.
        body[271] = 1;
        body[272..276].copy_from_slice(&id.to_ne_bytes());
        self.command(CONNECT, &body)?;
        Some(id)
    }

    /// Lets a client reach a listener, both of this channel.
    fn connect_honestly(&mut self) {
        let listener = self.create(TCP).expect("room");
        assert!(self.command(BIND, &bind(listener, [0; 4], 0)).is_some(), "a free port");
        assert!(self.command(LISTEN, &words(&[listener, 8])).is_some());
        let address = self.command(QUERY, &words(&[0, 0, listener, 0])).expect("an address");
        let port = u16::from_be_bytes([address[18], address[19]]);
        self.begin_connection(TCP, port).expect("a route");
        // Each step lets a bounded number of events happen, and an event of the program comes late.
        let requested = (0..200).any(|_| {
            self.harness.step(64);
            let event = self.command(GET_EVENT, &[0; 8]);
            event.is_some_and(|event| word(&event, 12) == CONNECT_REQUEST)
        });
        assert!(requested, "the listener gets the request");
    }
}

fn bind(id: u32, ip: [u8; 4], port: u16) -> [u8; 40] {
    let mut body = [0; 40];
    body[8..16].copy_from_slice(&sockaddr(ip, port));
    body[36..].copy_from_slice(&id.to_ne_bytes());
    body
}

/// Returns the beginning of a `sockaddr_in`.
fn sockaddr([a, b, c, d]: [u8; 4], port: u16) -> [u8; 8] {
    let [high, low] = port.to_be_bytes();
    [2, 0, high, low, a, b, c, d]
}

/// Returns a MAD of communication management with any of its attributes.
fn message(attribute: u8, fields: &[u8]) -> [u8; MAD_BYTES] {
    const ATTRIBUTES: u8 = 11;
    let mut mad = [0; MAD_BYTES];
    // Base version, class, version of the class, and the method Send (IBTA 16.7).
    mad[..4].copy_from_slice(&[1, 7, 2, 3]);
    let attribute = AttributeId::CM_REQ.0 + u16::from(attribute % ATTRIBUTES);
    mad[16..18].copy_from_slice(&attribute.to_be_bytes());
    let len = fields.len().min(MAD_BYTES - HEADER_BYTES);
    mad[HEADER_BYTES..HEADER_BYTES + len].copy_from_slice(&fields[..len]);
    mad
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().map_or(0, u32::from_ne_bytes)
}
