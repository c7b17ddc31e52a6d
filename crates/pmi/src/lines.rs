//! Splits a stream into lines.

use crate::LINE_MAX;

/// The peer sent more than `LINE_MAX` bytes without an end of line, or bytes that are not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLine;

/// Bytes of a stream that are not yet a line.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
}

impl Lines {
    /// Adds received bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the next complete line, without its end.
    ///
    /// # Errors
    /// If the stream contains no line of PMI-1. The stream is then of no use any more.
    pub fn take(&mut self) -> Result<Option<String>, BadLine> {
        let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') else {
            return if self.bytes.len() > LINE_MAX { Err(BadLine) } else { Ok(None) };
        };
        if end > LINE_MAX {
            return Err(BadLine);
        }
        let line: Vec<u8> = self.bytes.drain(..=end).take(end).collect();
        String::from_utf8(line).map(Some).map_err(|_| BadLine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_whole_however_their_bytes_arrive() {
        let mut lines = Lines::default();
        lines.add(b"cmd=in");
        assert_eq!(lines.take(), Ok(None));
        lines.add(b"it\ncmd=get_maxes\ncmd");
        assert_eq!(lines.take(), Ok(Some("cmd=init".into())));
        assert_eq!(lines.take(), Ok(Some("cmd=get_maxes".into())));
        assert_eq!(lines.take(), Ok(None));
    }

    #[test]
    fn endless_lines_and_other_bytes_are_refused() {
        let mut lines = Lines::default();
        lines.add(&[b'x'; LINE_MAX + 1]);
        assert_eq!(lines.take(), Err(BadLine));
        let mut lines = Lines::default();
        lines.add(b"\xff\xfe\n");
        assert_eq!(lines.take(), Err(BadLine));
    }
}
