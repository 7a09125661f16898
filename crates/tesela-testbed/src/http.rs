//! As much of HTTP/1.1 as `kubectl proxy` on a unix socket asks for: one request per connection.

use std::io::{BufRead, BufReader, Read, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

/// An answer, its body still to be read.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Box<dyn BufRead + Send>,
}

/// Asks. `body` is its media type and its bytes.
pub(crate) fn ask(socket: &Path, method: &str, path: &str, body: Option<(&str, &[u8])>) -> Result<Answer> {
    let mut stream =
        UnixStream::connect(socket).with_context(|| format!("cannot connect to {}", socket.display()))?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    if let Some((kind, bytes)) = body {
        head.push_str(&format!("Content-Type: {kind}\r\nContent-Length: {}\r\n", bytes.len()));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    if let Some((_, bytes)) = body {
        stream.write_all(bytes)?;
    }
    read(BufReader::new(stream)).with_context(|| format!("{method} {path}"))
}

fn read(mut stream: impl BufRead + Send + 'static) -> Result<Answer> {
    let first = line(&mut stream)?;
    let status = first.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.with_context(|| format!("no HTTP: `{first}`"))?;
    let (mut length, mut chunked) = (None, false);
    loop {
        let header = line(&mut stream)?;
        if header.is_empty() {
            break;
        }
        let Some((name, value)) = header.split_once(':') else { bail!("no header: `{header}`") };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = Some(value.trim().parse::<u64>().context("Content-Length")?),
            "transfer-encoding" => chunked = value.trim().eq_ignore_ascii_case("chunked"),
            _ => {}
        }
    }
    let body: Box<dyn BufRead + Send> = match length {
        _ if chunked => Box::new(BufReader::new(Chunks { stream, left: 0, ended: false })),
        Some(length) => Box::new(stream.take(length)),
        None => Box::new(stream),
    };
    Ok(Answer { status, body })
}

fn line(stream: &mut impl BufRead) -> Result<String> {
    let mut text = String::new();
    ensure!(stream.read_line(&mut text)? > 0, "the connection ended early");
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// A body in chunks (RFC 9112, 7.1).
struct Chunks<S> {
    stream: S,
    /// Bytes of this chunk that are still to come.
    left: u64,
    ended: bool,
}

impl<S: BufRead> Read for Chunks<S> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        use std::io::{Error, ErrorKind};
        if self.left == 0 && !self.ended {
            let size = line(&mut self.stream).map_err(|error| Error::new(ErrorKind::UnexpectedEof, error))?;
            let digits = size.split(';').next().unwrap_or_default();
            self.left = u64::from_str_radix(digits.trim(), 16)
                .map_err(|error| Error::new(ErrorKind::InvalidData, format!("chunk `{size}`: {error}")))?;
            self.ended = self.left == 0;
        }
        if self.ended {
            return Ok(0);
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(into.len());
        let Some(part) = into.get_mut(..most) else { return Ok(0) };
        let read = self.stream.read(part)?;
        if read == 0 && most > 0 {
            return Err(Error::new(ErrorKind::UnexpectedEof, "the connection ended inside a chunk"));
        }
        self.left -= read as u64;
        if self.left == 0 {
            let mut end = [0; 2];
            self.stream.read_exact(&mut end)?;
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn body(text: &'static str) -> (u16, Result<String, std::io::Error>) {
        let mut answer = read(Cursor::new(text.as_bytes())).unwrap();
        let mut body = String::new();
        let read = answer.body.read_to_string(&mut body);
        (answer.status, read.map(|_| body))
    }

    #[test]
    fn a_body_ends_by_its_length_its_chunks_or_its_connection() {
        let (status, text) = body("HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nabcdef");
        assert_eq!((status, text.unwrap().as_str()), (404, "abc"));
        let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nab\nc\r\nA;x=1\r\n0123456789\r\n0\r\n\r\n";
        assert_eq!(body(chunks).1.unwrap(), "ab\nc0123456789");
        assert_eq!(body("HTTP/1.1 200 OK\r\n\r\nall of it").1.unwrap(), "all of it");
    }

    #[test]
    fn a_body_that_is_cut_off_is_a_fault() {
        let cut = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nab";
        assert!(body(cut).1.is_err());
        assert!(body("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n").1.is_err());
    }
}
