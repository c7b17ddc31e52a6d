//! A line of a record.

use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Call of a rank. The layer writes only the fields that the call has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Name, such as `MPI_Send`.
    #[serde(rename = "c")]
    pub name: String,
    /// Present if the call is a successful look for the end of a request. A replay does not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll: Option<u8>,
    /// Present if the program looked for messages or the end of requests since the former line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked: Option<u8>,
    /// Computation since the former line, in nanoseconds of processor time.
    #[serde(rename = "t", default)]
    pub nanos: u64,
    /// End of `MPI_Init` in nanoseconds, on a clock of all ranks. In a recording of all ranks it counts
    /// from the first rank's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// Number of the communicator at this rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm: Option<u32>,
    /// Receiver of a sent message, as rank of MPI_COMM_WORLD, or -2 for MPI_PROC_NULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<i64>,
    /// Tag of a sent message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<i64>,
    /// Bytes of a sent message, or of a block of a collective.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Requested sender, or -1 for any, or -2 for MPI_PROC_NULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<i64>,
    /// Requested tag, or -1 for any.
    #[serde(rename = "rtag", default, skip_serializing_if = "Option::is_none")]
    pub receive_tag: Option<i64>,
    /// Room for a received message, in bytes.
    #[serde(rename = "rb", default, skip_serializing_if = "Option::is_none")]
    pub receive_bytes: Option<u64>,
    /// Root of a collective, as rank of MPI_COMM_WORLD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<i64>,
    /// Bytes for each rank of the communicator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Vec<u64>>,
    /// Bytes from each rank of the communicator.
    #[serde(rename = "rsizes", default, skip_serializing_if = "Option::is_none")]
    pub receive_sizes: Option<Vec<u64>>,
    /// Number of the request that the call starts.
    #[serde(rename = "rq", default, skip_serializing_if = "Option::is_none")]
    pub request: Option<u64>,
    /// Sender, tag and bytes of the message that the call received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub got: Option<[i64; 3]>,
    /// Requests that ended: number, and of a receive sender, tag and bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<Vec<Vec<i64>>>,
}

/// Communicator of a rank, before its first use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Communicator {
    /// Number at this rank.
    pub comm: u32,
    /// 1 for an intercommunicator.
    pub inter: u8,
    /// Members as ranks of MPI_COMM_WORLD.
    pub members: Vec<i64>,
}

/// Line of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Communicator, before its first use.
    Communicator(Communicator),
    /// Call of MPI.
    Call(Box<Call>),
}

impl Call {
    /// Returns whether the call is a look for the end of a request.
    pub fn is_poll(&self) -> bool {
        self.poll.is_some()
    }

    /// Returns the call with its arguments, in the words of the layer (`tools/mpirecord/replay.c`).
    pub fn signature(&self) -> String {
        let mut text = self.name.clone();
        let mut put = |word: &str, value: Option<i128>| {
            if let Some(value) = value {
                let _ = write!(text, " {word} {value}");
            }
        };
        put("comm", self.comm.map(i128::from));
        put("to", self.to.map(i128::from));
        put("tag", self.tag.map(i128::from));
        put("b", self.bytes.map(i128::from));
        put("from", self.from.map(i128::from));
        put("rtag", self.receive_tag.map(i128::from));
        put("rb", self.receive_bytes.map(i128::from));
        put("root", self.root.map(i128::from));
        text
    }
}

impl Line {
    /// Returns the call, if the line is one.
    pub fn call(&self) -> Option<&Call> {
        match self {
            Self::Call(call) => Some(&**call),
            Self::Communicator(_) => None,
        }
    }

    pub(super) fn json(&self) -> String {
        match self {
            Self::Call(call) => json(call),
            Self::Communicator(communicator) => json(communicator),
        }
    }
}

/// Returns a value as a line of JSON.
pub(super) fn json(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string(value).unwrap_or_default();
    text.push('\n');
    text
}
