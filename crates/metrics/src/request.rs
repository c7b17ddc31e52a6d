//! Requests of HTTP clients (RFC 9112): only the request line matters here.

/// Longest request with its headers, in bytes.
pub const BYTES_MAX: usize = 8 * 1024;
/// Path of the metrics.
const METRICS: &str = "/metrics";

/// Meaning of the bytes of a connection so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The headers have not ended.
    Incomplete,
    /// A request for the metrics.
    Metrics {
        /// Whether the client wants the headers only (HEAD).
        is_head: bool,
    },
    /// Nothing is at this path.
    UnknownPath,
    /// The method is neither GET nor HEAD.
    UnsupportedMethod,
    /// The bytes are no request of HTTP 1, or too many.
    Malformed,
}

/// Reads a request. Ignores headers and everything after them.
pub fn parse(bytes: &[u8]) -> Request {
    if bytes.len() > BYTES_MAX {
        return Request::Malformed;
    }
    let Some(line_end) = bytes.iter().position(|byte| *byte == b'\n') else { return Request::Incomplete };
    let line = &bytes[..line_end];
    let Some((method, target)) = request_line(line.strip_suffix(b"\r").unwrap_or(line)) else { return Request::Malformed };
    if !has_ended(&bytes[line_end..]) {
        return Request::Incomplete;
    }
    let is_head = method == "HEAD";
    if !is_head && method != "GET" {
        return Request::UnsupportedMethod;
    }
    let path = target.split('?').next().unwrap_or_default();
    if path == METRICS { Request::Metrics { is_head } } else { Request::UnknownPath }
}

/// Returns method and target of a request line.
fn request_line(line: &[u8]) -> Option<(&str, &str)> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let is_token = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_target = target.starts_with('/') && target.bytes().all(|byte| byte.is_ascii_graphic());
    (words.next().is_none() && is_token && is_target && matches!(version, "HTTP/1.0" | "HTTP/1.1")).then_some((method, target))
}

/// Checks for the empty line after the headers. `rest` begins with the end of the request line.
fn has_ended(rest: &[u8]) -> bool {
    rest.windows(2).any(|pair| pair == b"\n\n") || rest.windows(3).any(|three| three == b"\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_needs_its_empty_line() {
        let whole = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
        assert_eq!(parse(whole), Request::Metrics { is_head: false });
        for end in 0..whole.len() {
            assert_eq!(parse(&whole[..end]), Request::Incomplete, "{end}");
        }
        assert_eq!(parse(b"HEAD /metrics?x=1 HTTP/1.0\n\n"), Request::Metrics { is_head: true });
    }

    #[test]
    fn other_paths_and_methods_have_their_answers() {
        assert_eq!(parse(b"GET / HTTP/1.1\r\n\r\n"), Request::UnknownPath);
        assert_eq!(parse(b"GET /metrics/ HTTP/1.1\r\n\r\n"), Request::UnknownPath);
        assert_eq!(parse(b"POST /metrics HTTP/1.1\r\n\r\n"), Request::UnsupportedMethod);
        assert_eq!(parse(b"DELETE /x HTTP/1.1\r\n\r\n"), Request::UnsupportedMethod);
    }

    #[test]
    fn what_is_no_request_is_refused_at_once() {
        for line in
            ["", "GET", "GET /metrics", "GET  /metrics HTTP/1.1", "GET metrics HTTP/1.1", "G=T / HTTP/1.1", "GET / HTTP/2", "GET / HTTP/1.1 x"]
        {
            assert_eq!(parse(format!("{line}\r\n").as_bytes()), Request::Malformed, "{line}");
        }
        assert_eq!(parse(b"\x16\x03\x01\n"), Request::Malformed);
        assert_eq!(parse(&[b'a'; BYTES_MAX + 1]), Request::Malformed);
    }
}
