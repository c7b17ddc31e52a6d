//! The commands of `/dev/infiniband/rdma_cm` (`rdma/rdma_user_cm.h`), parsed.

use super::address::{Address, STORAGE_BYTES, V6_BYTES};
use super::fields::Fields;

/// Most bytes of private data in a command.
pub(super) const PRIVATE_BYTES: usize = 256;

/// Parameters of CONNECT and ACCEPT (`struct rdma_ucm_conn_param`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parameters {
    pub(super) qpn: u32,
    pub(super) qkey: u32,
    pub(super) private_data: Vec<u8>,
    pub(super) srq: bool,
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    pub(super) flow_control: bool,
    pub(super) retry_count: u8,
    pub(super) rnr_retry_count: u8,
}

/// A command of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Create {
        uid: u64,
        space: u16,
        qp_type: u8,
    },
    Destroy {
        id: u32,
    },
    Bind {
        id: u32,
        to: Address,
    },
    ResolveAddress {
        id: u32,
        source: Option<Address>,
        destination: Address,
        millis: u32,
    },
    ResolveRoute {
        id: u32,
    },
    QueryRoute {
        id: u32,
    },
    Query {
        id: u32,
        option: u32,
    },
    Connect {
        id: u32,
        parameters: Parameters,
    },
    Listen {
        id: u32,
        backlog: u32,
    },
    Accept {
        id: u32,
        uid: u64,
        parameters: Option<Parameters>,
    },
    Reject {
        id: u32,
        reason: u8,
        private_data: Vec<u8>,
    },
    Disconnect {
        id: u32,
    },
    InitQpAttributes {
        id: u32,
        state: u32,
    },
    GetEvent,
    SetOption {
        id: u32,
        level: u32,
        name: u32,
        value: Vec<u8>,
    },
    Notify {
        id: u32,
        event: u32,
    },
    /// The program knows the membership by `uid`.
    Join {
        id: u32,
        uid: u64,
        to: Address,
        send_only: bool,
    },
    Leave {
        multicast: u32,
    },
    /// `from` is the number of the channel that has the identifier.
    Migrate {
        id: u32,
        from: u32,
    },
}

/// Least bytes of each command.
const BYTES_MIN: [usize; 23] = [24, 16, 40, 64, 8, 16, 280, 8, 288, 264, 4, 16, 8, 0, 24, 8, 48, 16, 16, 16, 136, 272, 152];
/// Least room of the reply to each command.
const ROOM_MIN: [usize; 23] = [4, 4, 0, 0, 0, 200, 0, 0, 0, 0, 0, 144, 324, 0, 0, 0, 4, 4, 4, 0, 0, 0, 4];
const GET_OPTION: u32 = 13;

impl Command {
    /// Parses a command: its number, the room for the reply, and its bytes. For SET_OPTION the bytes
    /// of the value follow.
    ///
    /// # Errors
    /// `EINVAL` for a command that is unknown, too short or without sense. `ENOSPC` without room for
    /// the reply. `ENOSYS` for GET_OPTION.
    pub(crate) fn parse(number: u32, room: usize, bytes: &[u8]) -> Result<Self, i32> {
        let least = *BYTES_MIN.get(number as usize).ok_or(libc::EINVAL)?;
        if number == GET_OPTION {
            return Err(libc::ENOSYS);
        }
        if room < ROOM_MIN[number as usize] {
            return Err(libc::ENOSPC);
        }
        if bytes.len() < least {
            return Err(libc::EINVAL);
        }
        let body = Fields(bytes);
        Ok(match number {
            0 => Self::Create { uid: body.u64(0), space: body.u16(16), qp_type: body.u8(18) },
            1 => Self::Destroy { id: body.u32(8) },
            2 => Self::Bind { id: body.u32(36), to: short(body.from(8))? },
            3 => Self::ResolveAddress { source: optional(body.from(0))?, destination: short(body.from(28))?, id: body.u32(56), millis: body.u32(60) },
            4 => Self::ResolveRoute { id: body.u32(0) },
            5 => Self::QueryRoute { id: body.u32(8) },
            6 => Self::Connect { id: body.u32(272), parameters: parameters(body, 0)?.ok_or(libc::EINVAL)? },
            7 => Self::Listen { id: body.u32(0), backlog: body.u32(4) },
            8 => Self::Accept { uid: body.u64(0), parameters: parameters(body, 8)?, id: body.u32(280) },
            9 => Self::Reject { id: body.u32(0), reason: body.u8(5), private_data: body.bytes(8, body.u8(4).into()) },
            10 => Self::Disconnect { id: body.u32(0) },
            11 => Self::InitQpAttributes { id: body.u32(8), state: body.u32(12) },
            12 => Self::GetEvent,
            14 => Self::SetOption { id: body.u32(8), level: body.u32(12), name: body.u32(16), value: body.bytes(24, body.u32(20) as usize) },
            15 => Self::Notify { id: body.u32(0), event: body.u32(4) },
            16 => {
                let to = short(body.from(16))?;
                Self::Join { id: body.u32(44), uid: body.u64(8), to, send_only: false }
            }
            17 => Self::Leave { multicast: body.u32(8) },
            18 => Self::Migrate { id: body.u32(8), from: body.u32(12) },
            19 => Self::Query { id: body.u32(8), option: body.u32(12) },
            20 => Self::Bind { id: body.u32(0), to: sized(body.from(8), body.u16(4), body.u16(6).into())? },
            21 => Self::ResolveAddress {
                id: body.u32(0),
                millis: body.u32(4),
                source: if body.u16(8) == 0 { None } else { Some(sized(body.from(16), body.u16(8), 0)?) },
                destination: sized(body.from(16 + STORAGE_BYTES), body.u16(10), body.u32(12))?,
            },
            22 => Self::Join { id: body.u32(16), uid: body.u64(8), to: sized(body.from(24), body.u16(20), 0)?, send_only: send_only(body.u16(22))? },
            _ => return Err(libc::EINVAL),
        })
    }
}

/// Reads an address that may be missing: its family is 0 then.
fn optional(bytes: &[u8]) -> Result<Option<Address>, i32> {
    if Fields(bytes).u16(0) == 0 {
        return Ok(None);
    }
    short(bytes).map(Some)
}

/// Reads an address from the room of a `sockaddr_in6`.
fn short(bytes: &[u8]) -> Result<Address, i32> {
    bytes.get(..V6_BYTES).and_then(Address::parse).ok_or(libc::EINVAL)
}

/// Reads an address with its size. A reserved field must be 0.
fn sized(bytes: &[u8], size: u16, reserved: u32) -> Result<Address, i32> {
    Address::parse(bytes).filter(|address| reserved == 0 && address.size() == usize::from(size)).ok_or(libc::EINVAL)
}

/// Reads the flags of a join (`enum rdma_ucm_mc_join_flags`).
fn send_only(flags: u16) -> Result<bool, i32> {
    match flags {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(libc::EINVAL),
    }
}

/// Reads `struct rdma_ucm_conn_param`. Returns `None` if it is marked as absent.
fn parameters(body: Fields<'_>, at: usize) -> Result<Option<Parameters>, i32> {
    if body.u8(at + 271) == 0 {
        return Ok(None);
    }
    Ok(Some(Parameters {
        qpn: body.u32(at) & 0xFF_FFFF,
        qkey: body.u32(at + 4),
        private_data: body.bytes(at + 8, usize::from(body.u8(at + 8 + PRIVATE_BYTES))),
        srq: body.u8(at + 265) != 0,
        responder_resources: body.u8(at + 266),
        initiator_depth: body.u8(at + 267),
        flow_control: body.u8(at + 268) != 0,
        retry_count: body.u8(at + 269),
        rnr_retry_count: body.u8(at + 270),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_needs_its_bytes_and_its_room() {
        for number in 0..23 {
            let least = BYTES_MIN[number as usize];
            let outcome = Command::parse(number, 512, &vec![0; least.max(1) - 1]);
            assert!(matches!(outcome, Err(libc::EINVAL | libc::ENOSYS)), "{number}: {outcome:?}");
            if ROOM_MIN[number as usize] > 0 {
                assert_eq!(Command::parse(number, ROOM_MIN[number as usize] - 1, &[0; 512]), Err(libc::ENOSPC));
            }
        }
        assert_eq!(Command::parse(23, 512, &[0; 512]), Err(libc::EINVAL));
        assert_eq!(Command::parse(13, 512, &[0; 512]), Err(libc::ENOSYS));
    }

    #[test]
    fn a_connect_without_parameters_is_refused_and_an_accept_is_not() {
        assert_eq!(Command::parse(6, 0, &[0; 288]), Err(libc::EINVAL));
        assert_eq!(Command::parse(8, 0, &[0; 296]), Ok(Command::Accept { id: 0, uid: 0, parameters: None }));
    }

    #[test]
    fn any_bytes_are_a_command_or_an_error() {
        let mut random = 1u64;
        for _ in 0..20_000 {
            let mut bytes = [0u8; 300];
            for byte in &mut bytes {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                *byte = (random >> 33) as u8;
            }
            let len = random as usize % 301;
            let _ = Command::parse(u32::from(bytes[0]) % 24, usize::from(bytes[1]) * 2, &bytes[..len]);
        }
    }
}
