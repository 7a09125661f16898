//! A GGUF file's header as a stream of values, each length held against what is left.

use std::io::{self, BufReader, Read};

use super::refusal;
use crate::diagnostic::Diagnostics;

/// Numbers of a list that are kept; longer lists keep their length alone.
const MOST_LISTED: u64 = 4_096;
/// A name or a key is never longer.
const MOST_NAME: u64 = 65_535;
/// Letters of a text that are kept.
const MOST_TEXT: u64 = 256;
/// Lists inside of lists.
const MOST_DEPTH: u32 = 4;

/// Metadata that is kept.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Number(u64),
    Flag(bool),
    Text(String),
    Numbers(Vec<u64>),
    Flags(Vec<bool>),
    /// A list of something else, or a long one: its length.
    Length(u64),
}

impl Value {
    pub(super) fn number(&self) -> Option<u64> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }

    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

/// The file, and how much of it is read.
pub(super) struct Stream<'f, R> {
    file: &'f str,
    reader: BufReader<R>,
    at: u64,
    /// Nothing of the header lies beyond: the end of the file, or the most that is read.
    end: u64,
    length: Option<u64>,
    /// Version 1 counts with 32 bits.
    short: bool,
}

impl<'f, R: Read> Stream<'f, R> {
    pub(super) fn new(file: &'f str, reader: R, length: Option<u64>, most: u64) -> Self {
        let end = length.unwrap_or(most).min(most);
        Self { file, reader: BufReader::with_capacity(1 << 16, reader), at: 0, end, length, short: false }
    }

    /// Bytes read so far.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    pub(super) fn short_counts(&mut self, short: bool) {
        self.short = short;
    }

    pub(super) fn refuse(&self, rule: &'static str, message: &str) -> Diagnostics {
        refusal(self.file, rule, &format!("byte {}: {message}", self.at))
    }

    /// That so many things of so many bytes at least fit into what is left.
    pub(super) fn room_for(&self, count: u64, each: u64, what: &str) -> Result<(), Diagnostics> {
        let left = self.end.saturating_sub(self.at);
        if count.checked_mul(each).is_some_and(|needed| needed <= left) {
            return Ok(());
        }
        let holds = match self.length {
            Some(length) if length == self.end => format!("the file has {length} bytes"),
            _ => format!("at most {} bytes of a header are read", self.end),
        };
        Err(self.refuse("model-length", &format!("it announces {count} {what}, but {holds}")))
    }

    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Diagnostics> {
        self.room_for(1, N as u64, "more value")?;
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes).map_err(|error| self.cut(&error))?;
        self.at += N as u64;
        Ok(bytes)
    }

    fn cut(&self, error: &io::Error) -> Diagnostics {
        self.refuse("model-truncated", &format!("the file ends inside of its header ({error})"))
    }

    /// A count or a length.
    pub(super) fn count(&mut self) -> Result<u64, Diagnostics> {
        if self.short {
            Ok(u32::from_le_bytes(self.bytes()?).into())
        } else {
            Ok(u64::from_le_bytes(self.bytes()?))
        }
    }

    fn skip(&mut self, bytes: u64) -> Result<(), Diagnostics> {
        self.room_for(1, bytes, "more value")?;
        let skipped = io::copy(&mut self.reader.by_ref().take(bytes), &mut io::sink());
        match skipped {
            Ok(n) if n == bytes => {
                self.at += bytes;
                Ok(())
            }
            Ok(_) => Err(self.cut(&io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(self.cut(&error)),
        }
    }

    /// The first letters of a text; all of it is read.
    fn text(&mut self, most: u64) -> Result<String, Diagnostics> {
        let length = self.count()?;
        self.room_for(1, length, "text")?;
        let mut kept = Vec::new();
        let read = self.reader.by_ref().take(length.min(most)).read_to_end(&mut kept);
        read.map_err(|error| self.cut(&error))?;
        self.at += kept.len() as u64;
        if (kept.len() as u64) < length.min(most) {
            return Err(self.cut(&io::ErrorKind::UnexpectedEof.into()));
        }
        self.skip(length - length.min(most))?;
        Ok(String::from_utf8_lossy(&kept).into_owned())
    }

    /// The name of a tensor or of a piece of metadata.
    pub(super) fn name(&mut self) -> Result<String, Diagnostics> {
        let before = self.at;
        let name = self.text(MOST_NAME)?;
        if name.is_empty() || self.at - before > MOST_NAME {
            return Err(self.refuse("model-header", "a name is empty, or longer than 65,535 bytes"));
        }
        Ok(name)
    }

    /// A key with its value; `None` for values that nobody asks for.
    pub(super) fn pair(&mut self) -> Result<(String, Option<Value>), Diagnostics> {
        let key = self.name()?;
        let kind = u32::from_le_bytes(self.bytes()?);
        Ok((key, self.value(kind, 0)?))
    }

    fn value(&mut self, kind: u32, depth: u32) -> Result<Option<Value>, Diagnostics> {
        Ok(match kind {
            8 => Some(Value::Text(self.text(MOST_TEXT)?)),
            9 => self.list(depth)?,
            7 => Some(Value::Flag(self.bytes::<1>()?[0] != 0)),
            _ => self.number(kind)?.map(Value::Number),
        })
    }

    /// A number; `None` for a negative one or a fraction.
    fn number(&mut self, kind: u32) -> Result<Option<u64>, Diagnostics> {
        Ok(match kind {
            0 => Some(self.bytes::<1>()?[0].into()),
            1 => u64::try_from(i8::from_le_bytes(self.bytes()?)).ok(),
            2 => Some(u16::from_le_bytes(self.bytes()?).into()),
            3 => u64::try_from(i16::from_le_bytes(self.bytes()?)).ok(),
            4 => Some(u32::from_le_bytes(self.bytes()?).into()),
            5 => u64::try_from(i32::from_le_bytes(self.bytes()?)).ok(),
            6 => self.bytes::<4>().map(|_| None)?,
            10 => Some(u64::from_le_bytes(self.bytes()?)),
            11 => u64::try_from(i64::from_le_bytes(self.bytes()?)).ok(),
            12 => self.bytes::<8>().map(|_| None)?,
            other => {
                return Err(self.refuse(
                    "model-header",
                    &format!("a value is of type {other}, which GGUF does not have"),
                ));
            }
        })
    }

    fn list(&mut self, depth: u32) -> Result<Option<Value>, Diagnostics> {
        let kind = u32::from_le_bytes(self.bytes()?);
        let length = self.count()?;
        let each = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            10..=12 => 8,
            8 => 8,
            9 => 12,
            other => {
                return Err(self.refuse(
                    "model-header",
                    &format!("a list is of type {other}, which GGUF does not have"),
                ));
            }
        };
        self.room_for(length, if self.short && kind == 8 { 4 } else { each }, "elements of a list")?;
        match kind {
            8 => (0..length).try_for_each(|_| self.text(0).map(|_| ()))?,
            9 if depth >= MOST_DEPTH => {
                return Err(self.refuse("model-header", "lists lie in lists more than 4 levels deep"));
            }
            9 => (0..length).try_for_each(|_| self.list(depth + 1).map(|_| ()))?,
            7 if length <= MOST_LISTED => {
                let flags = (0..length).map(|_| self.bytes::<1>().map(|b| b[0] != 0));
                return flags.collect::<Result<_, _>>().map(|flags| Some(Value::Flags(flags)));
            }
            6 | 7 | 12 => self.skip(length * each)?,
            _ if length <= MOST_LISTED => {
                let numbers = (0..length).map(|_| self.number(kind).map(|n| n.unwrap_or(0)));
                return numbers.collect::<Result<_, _>>().map(|numbers| Some(Value::Numbers(numbers)));
            }
            _ => self.skip(length * each)?,
        }
        Ok(Some(Value::Length(length)))
    }
}
