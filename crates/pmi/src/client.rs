//! The side of a rank: one request and its answer at a time, over any stream.

use crate::lines::Lines;
use crate::message::{command, last_word, word};
use crate::{KEY_MAX, MAPPING_KEY, VALUE_MAX, mapping};
use std::io::{Error, ErrorKind, Read, Result, Write};

/// A rank's connection to the server of its job.
#[derive(Debug)]
pub struct Client<S> {
    stream: S,
    lines: Lines,
    /// Name of the job and of its key-value space.
    pub name: String,
    pub rank: usize,
    pub size: usize,
    /// Ranks on the host of this rank, in order.
    pub neighbours: Vec<usize>,
}

impl<S: Read + Write> Client<S> {
    /// Introduces rank `rank` to the server.
    ///
    /// # Errors
    /// If the connection fails, or the other side is no server of PMI-1.
    pub fn start(stream: S, rank: usize) -> Result<Self> {
        let mut client = Self { stream, lines: Lines::default(), name: String::new(), rank, size: 0, neighbours: vec![rank] };
        client.send(&format!("cmd=initack pmiid={rank}"))?;
        client.answer("initack")?;
        client.size = client.number("size")?;
        client.rank = client.number("rank")?;
        client.answer("set")?;
        client.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        let answer = client.ask("cmd=get_my_kvsname", "my_kvsname")?;
        word(&answer, "kvsname").ok_or(ErrorKind::InvalidData)?.clone_into(&mut client.name);
        if let Some(text) = client.get(MAPPING_KEY)?
            && let Some(hosts) = mapping::hosts_of(&text, client.size)
            && let Some(own) = hosts.get(client.rank)
        {
            client.neighbours = (0..client.size).filter(|rank| hosts.get(*rank) == Some(own)).collect();
        }
        Ok(client)
    }

    /// Writes a value.
    ///
    /// # Errors
    /// If the connection fails, the key or value is too long, the key has blanks, or the value has ends of
    /// lines.
    pub fn put(&mut self, key: &str, value: &str) -> Result<()> {
        let is_key = key.len() <= KEY_MAX && !key.contains([' ', '\n']);
        if !is_key || value.len() > VALUE_MAX || value.contains('\n') {
            return Err(ErrorKind::InvalidInput.into());
        }
        self.ask(&format!("cmd=put kvsname={} key={key} value={value}", self.name), "put_result").map(|_| ())
    }

    /// Reads a value. Returns `None` if no rank has written it.
    ///
    /// # Errors
    /// If the connection fails, or the key is too long or has blanks.
    pub fn get(&mut self, key: &str) -> Result<Option<String>> {
        if key.len() > KEY_MAX || key.contains([' ', '\n']) {
            return Err(ErrorKind::InvalidInput.into());
        }
        let answer = self.ask(&format!("cmd=get kvsname={} key={key}", self.name), "get_result")?;
        Ok(last_word(&answer, "value").filter(|_| word(&answer, "rc") == Some("0")).map(str::to_owned))
    }

    /// Waits until each rank has called this.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn barrier(&mut self) -> Result<()> {
        self.ask("cmd=barrier_in", "barrier_out").map(|_| ())
    }

    /// Asks the server to end the job.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn abort(&mut self, code: i32) -> Result<()> {
        self.send(&format!("cmd=abort exitcode={code}"))
    }

    /// Says that this rank leaves the job.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn finalize(&mut self) -> Result<()> {
        self.ask("cmd=finalize", "finalize_ack").map(|_| ())
    }

    fn number(&mut self, name: &str) -> Result<usize> {
        let line = self.answer("set")?;
        word(&line, name).and_then(|word| word.parse().ok()).ok_or_else(|| ErrorKind::InvalidData.into())
    }

    fn ask(&mut self, line: &str, answer: &str) -> Result<String> {
        self.send(line)?;
        self.answer(answer)
    }

    fn send(&mut self, line: &str) -> Result<()> {
        self.stream.write_all(format!("{line}\n").as_bytes())
    }

    fn answer(&mut self, wanted: &str) -> Result<String> {
        let mut bytes = [0; 1024];
        loop {
            if let Some(line) = self.lines.take().map_err(|_| Error::from(ErrorKind::InvalidData))? {
                return if command(&line) == Some(wanted) { Ok(line) } else { Err(ErrorKind::InvalidData.into()) };
            }
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.lines.add(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Action, Job};

    /// A stream whose other end is a job, on connection 0.
    struct Served {
        job: Job,
        received: Lines,
        answers: Vec<u8>,
    }

    impl Write for Served {
        fn write(&mut self, bytes: &[u8]) -> Result<usize> {
            self.received.add(bytes);
            while let Ok(Some(line)) = self.received.take() {
                for action in self.job.line(0, &line) {
                    if let Action::Send(_, text) = action {
                        self.answers.extend(format!("{text}\n").bytes());
                    }
                }
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    impl Read for Served {
        fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
            let count = bytes.len().min(self.answers.len());
            bytes[..count].copy_from_slice(&self.answers[..count]);
            self.answers.drain(..count);
            Ok(count)
        }
    }

    #[test]
    fn a_client_and_a_job_understand_each_other() {
        let mut job = Job::new("softband-1", &[0]);
        job.connected(0);
        let mut client = Client::start(Served { job, received: Lines::default(), answers: Vec::new() }, 0).unwrap();
        assert_eq!((client.rank, client.size, client.neighbours.as_slice()), (0, 1, [0].as_slice()));
        assert_eq!(client.name, "softband-1");
        client.put("k", "two words ").unwrap();
        client.barrier().unwrap();
        assert_eq!(client.get("k").unwrap().as_deref(), Some("two words "));
        assert_eq!(client.get("x").unwrap(), None);
        assert!(client.put("two words", "v").is_err());
        client.finalize().unwrap();
    }

    #[test]
    fn a_server_that_ends_is_an_error() {
        #[derive(Debug)]
        struct Gone;
        impl Read for Gone {
            fn read(&mut self, _: &mut [u8]) -> Result<usize> {
                Ok(0)
            }
        }
        impl Write for Gone {
            fn write(&mut self, bytes: &[u8]) -> Result<usize> {
                Ok(bytes.len())
            }
            fn flush(&mut self) -> Result<()> {
                Ok(())
            }
        }
        assert_eq!(Client::start(Gone, 0).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
}
