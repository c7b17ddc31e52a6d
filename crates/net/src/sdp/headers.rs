//! Bytes of messages: the base header (BSDH), and the headers behind it (IBTA A4.3).

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Bytes of the base header.
pub(super) const HEADER_BYTES: u32 = 16;
/// Bytes of a Hello message: the base header, versions, sizes, port and addresses.
const HELLO_BYTES: usize = 92;
/// Bytes of a Hello acknowledgement without its reserved end.
const HELLO_ACK_BYTES: usize = 24;
/// Version 2.2 (major and minor) of the protocol.
const VERSION: u8 = 0x22;
/// The addresses of the Hello message are IPv4.
const IPV4: u8 = 0x40;

/// The last byte of the message is urgent (OOB_PRES).
pub(super) const URGENT_HERE: u8 = 1;
/// An urgent byte will follow (OOB_PEND).
pub(super) const URGENT_SOON: u8 = 2;

/// Message identifiers (MID).
mod id {
    pub(super) const HELLO: u8 = 0x00;
    pub(super) const HELLO_ACK: u8 = 0x01;
    pub(super) const DISCONNECT: u8 = 0x02;
    pub(super) const ABORT: u8 = 0x03;
    pub(super) const SEND_SMALL: u8 = 0x04;
    pub(super) const READ_COMPLETE: u8 = 0x06;
    pub(super) const CANCEL_SOURCE: u8 = 0x08;
    pub(super) const SOURCE: u8 = 0xFE;
    pub(super) const DATA: u8 = 0xFF;
}

/// Reason why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// The bytes end early, or their length differs from that in the header.
    Length,
    /// The protocol has no such message, or this implementation does not take it.
    Unknown(u8),
    /// Another version of the protocol, or another family of addresses.
    Version,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length => f.write_str("a message of SDP with a wrong length"),
            Self::Unknown(id) => write!(f, "a message of SDP with the unknown identifier {id:#04x}"),
            Self::Version => f.write_str("a message of SDP with another version or family of addresses"),
        }
    }
}

impl std::error::Error for HeaderError {}

/// Request for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Address of the sender.
    pub source: SocketAddrV4,
    /// Address to which the sender connects.
    pub destination: SocketAddrV4,
    /// Bytes of the sender's receive buffers with their headers.
    pub buffer_bytes: u32,
}

/// Content of a message. Data follows its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Hello.
    Hello(Hello),
    /// HelloAck: bytes of the sender's receive buffers.
    HelloAck {
        /// Bytes of a receive buffer with its header.
        buffer_bytes: u32,
    },
    /// DisConn: the sender sends no more data.
    Disconnect,
    /// AbortConn.
    Abort,
    /// SendSm: the data of the announced source shall come by copy.
    SendSmall,
    /// RdmaRdCompl: the sender has read bytes of the source.
    ReadComplete {
        /// Number of bytes.
        bytes: u32,
    },
    /// SrcAvailCancel: the sender gives the announced source up.
    CancelSource,
    /// SrcAvail.
    Source {
        /// Number of bytes.
        bytes: u32,
        /// Key of the memory.
        rkey: u32,
        /// Address of the first byte.
        address: u64,
    },
    /// Data of this length.
    Data {
        /// Number of bytes.
        bytes: u32,
    },
}

/// Fields of the base header that each message has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Base {
    /// Flags of urgent data.
    pub flags: u8,
    /// Free receive buffers of the sender (Bufs).
    pub buffers: u16,
    /// Number of the message (MSeq).
    pub number: u32,
    /// Number of the last message that the sender received (MSeqAck).
    pub acknowledged: u32,
}

impl Message {
    const fn id(&self) -> u8 {
        match self {
            Self::Hello(_) => id::HELLO,
            Self::HelloAck { .. } => id::HELLO_ACK,
            Self::Disconnect => id::DISCONNECT,
            Self::Abort => id::ABORT,
            Self::SendSmall => id::SEND_SMALL,
            Self::ReadComplete { .. } => id::READ_COMPLETE,
            Self::CancelSource => id::CANCEL_SOURCE,
            Self::Source { .. } => id::SOURCE,
            Self::Data { .. } => id::DATA,
        }
    }

    /// Returns the bytes of the headers. Data follows.
    pub fn encode(&self, base: Base) -> Vec<u8> {
        let mut bytes = vec![self.id(), base.flags];
        bytes.extend(base.buffers.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(base.number.to_be_bytes());
        bytes.extend(base.acknowledged.to_be_bytes());
        let mut data_bytes = 0;
        match *self {
            Self::Hello(hello) => hello.put(&mut bytes),
            Self::HelloAck { buffer_bytes } => {
                bytes.extend([VERSION, IPV4, 0, 1]);
                bytes.extend(buffer_bytes.to_be_bytes());
            }
            Self::ReadComplete { bytes: read } => bytes.extend(read.to_be_bytes()),
            Self::Source { bytes: len, rkey, address } => {
                bytes.extend(len.to_be_bytes());
                bytes.extend(rkey.to_be_bytes());
                bytes.extend(address.to_be_bytes());
            }
            Self::Data { bytes: len } => data_bytes = len,
            Self::Disconnect | Self::Abort | Self::SendSmall | Self::CancelSource => {}
        }
        let whole = bytes.len() as u32 + data_bytes;
        bytes[4..8].copy_from_slice(&whole.to_be_bytes());
        bytes
    }

    /// Returns a message with its base header and its data.
    ///
    /// # Errors
    /// If the bytes are no message that this implementation takes.
    pub fn decode(bytes: &[u8]) -> Result<(Self, Base, &[u8]), HeaderError> {
        let mut fields = Fields(bytes);
        let (id, flags, buffers) = (fields.byte()?, fields.byte()?, fields.half()?);
        let (whole, number, acknowledged) = (fields.word()?, fields.word()?, fields.word()?);
        if whole as usize != bytes.len() {
            return Err(HeaderError::Length);
        }
        let rest = fields.0;
        let message = match id {
            id::HELLO => Self::Hello(Hello::take(&mut fields)?),
            id::HELLO_ACK => {
                check_version(&mut fields)?;
                Self::HelloAck { buffer_bytes: fields.word()? }
            }
            id::DISCONNECT => Self::Disconnect,
            id::ABORT => Self::Abort,
            id::SEND_SMALL => Self::SendSmall,
            id::READ_COMPLETE => Self::ReadComplete { bytes: fields.word()? },
            id::CANCEL_SOURCE => Self::CancelSource,
            id::SOURCE => Self::Source { bytes: fields.word()?, rkey: fields.word()?, address: fields.long()? },
            id::DATA => Self::Data { bytes: u32::try_from(rest.len()).map_err(|_| HeaderError::Length)? },
            other => return Err(HeaderError::Unknown(other)),
        };
        let data = if id == id::DATA { rest } else { &[] };
        Ok((message, Base { flags, buffers, number, acknowledged }, data))
    }
}

impl Hello {
    fn put(&self, bytes: &mut Vec<u8>) {
        // Each side takes one source announcement at a time (MaxAdverts).
        bytes.extend([VERSION, IPV4, 0, 1]);
        bytes.extend(self.buffer_bytes.to_be_bytes());
        bytes.extend(self.buffer_bytes.to_be_bytes());
        bytes.extend(self.source.port().to_be_bytes());
        // A reserved field has the port of the destination, which real messages have in their service ID.
        bytes.extend(self.destination.port().to_be_bytes());
        for address in [self.source.ip(), self.destination.ip()] {
            bytes.extend([0; 12]);
            bytes.extend(address.octets());
        }
        bytes.resize(HELLO_BYTES, 0);
    }

    fn take(fields: &mut Fields<'_>) -> Result<Self, HeaderError> {
        check_version(fields)?;
        fields.word()?;
        let buffer_bytes = fields.word()?;
        let (source_port, port) = (fields.half()?, fields.half()?);
        let (source, destination) = (fields.v4()?, fields.v4()?);
        fields.skip(HELLO_BYTES - HELLO_ACK_BYTES - 40)?;
        Ok(Self { source: SocketAddrV4::new(source, source_port), destination: SocketAddrV4::new(destination, port), buffer_bytes })
    }
}

fn check_version(fields: &mut Fields<'_>) -> Result<(), HeaderError> {
    let (version, family) = (fields.byte()?, fields.byte()?);
    fields.half()?;
    if version >> 4 == VERSION >> 4 && family & IPV4 != 0 { Ok(()) } else { Err(HeaderError::Version) }
}

/// Returns the request for a connection if the bytes are one.
pub fn hello_of(bytes: &[u8]) -> Option<(Hello, Base)> {
    match Message::decode(bytes) {
        Ok((Message::Hello(hello), base, _)) => Some((hello, base)),
        _ => None,
    }
}

/// Returns the message that refuses a connection.
pub fn abort() -> Vec<u8> {
    Message::Abort.encode(Base::default())
}

/// Fields of a header that may end early.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], HeaderError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(HeaderError::Length)?;
        self.0 = rest;
        Ok(*taken)
    }
    fn byte(&mut self) -> Result<u8, HeaderError> {
        self.array::<1>().map(|[byte]| byte)
    }
    fn half(&mut self) -> Result<u16, HeaderError> {
        self.array().map(u16::from_be_bytes)
    }
    fn word(&mut self) -> Result<u32, HeaderError> {
        self.array().map(u32::from_be_bytes)
    }
    fn long(&mut self) -> Result<u64, HeaderError> {
        self.array().map(u64::from_be_bytes)
    }
    /// Takes an address of IPv4 in its field of 16 bytes.
    fn v4(&mut self) -> Result<Ipv4Addr, HeaderError> {
        self.skip(12)?;
        self.array::<4>().map(Ipv4Addr::from)
    }
    fn skip(&mut self, bytes: usize) -> Result<(), HeaderError> {
        self.0 = self.0.get(bytes..).ok_or(HeaderError::Length)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_survives_its_bytes() {
        let base = Base { flags: URGENT_SOON, buffers: 63, number: 7, acknowledged: u32::MAX };
        let at = |last, port| SocketAddrV4::new(Ipv4Addr::new(10, 1, 0, last), port);
        let messages = [
            Message::Hello(Hello { source: at(1, 40_000), destination: at(2, 5_001), buffer_bytes: BUFFER }),
            Message::HelloAck { buffer_bytes: BUFFER },
            Message::Disconnect,
            Message::Abort,
            Message::SendSmall,
            Message::ReadComplete { bytes: 9 },
            Message::CancelSource,
            Message::Source { bytes: 1 << 20, rkey: 0xABCD, address: 3 << 46 },
        ];
        for message in messages {
            let bytes = message.encode(base);
            assert_eq!(Message::decode(&bytes), Ok((message, base, &[][..])));
            assert_eq!(Message::decode(&bytes[..bytes.len() - 1]), Err(HeaderError::Length));
        }
        let mut data = Message::Data { bytes: 3 }.encode(base);
        data.extend([1, 2, 3]);
        assert_eq!(Message::decode(&data), Ok((Message::Data { bytes: 3 }, base, &[1, 2, 3][..])));
    }

    const BUFFER: u32 = super::super::BUFFER_BYTES;

    #[test]
    fn a_hello_has_the_size_of_the_annex() {
        let at = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);
        let hello = Hello { source: at, destination: at, buffer_bytes: 1 };
        assert_eq!(Message::Hello(hello).encode(Base::default()).len(), HELLO_BYTES);
        assert_eq!(hello_of(&abort()), None);
    }
}
