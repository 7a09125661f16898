//! The header of a safetensors file: types, shapes and places of tensors; never the tensors.
//!
//! Format (github.com/huggingface/safetensors): 8 bytes little-endian length, that many bytes of JSON, then the data
//! without holes. The JSON is read as a stream and nothing of it is kept but sums, so a header of a million tensors
//! takes no more memory than one of ten.

use std::fmt;
use std::io::{BufReader, Read};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tesela_model::network::{DataType, WeightGroup};

use super::tally::Tally;
use crate::diagnostic::{Diagnostic, Diagnostics, shown};

/// The format's own limit of a header.
const MOST_HEADER: u64 = 100_000_000;
/// More dimensions than any tensor has.
const MOST_RANK: usize = 32;

/// What a header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SafetensorsHeader {
    pub(super) file: String,
    tally: Tally,
    bytes: u64,
}

impl SafetensorsHeader {
    /// The name of the file.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Bytes of all tensors.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of tensors.
    #[must_use]
    pub fn tensors(&self) -> u64 {
        self.tally.tensors
    }

    /// Tensors of one kind and type together.
    #[must_use]
    pub fn groups(&self) -> &[WeightGroup] {
        self.tally.groups()
    }
}

/// Reads a header. `length` is that of the whole file, where it is known; of the file only the header is read.
///
/// # Errors
/// Rules `model-truncated` (the file ends inside of what it announces), `model-length` (a length or an offset that lies),
/// `model-json`, `model-shape` (a tensor whose type, shape and bytes disagree).
pub fn read_safetensors(
    file: &str,
    mut reader: impl Read,
    length: Option<u64>,
) -> Result<SafetensorsHeader, Diagnostics> {
    let mut eight = [0u8; 8];
    reader.read_exact(&mut eight).map_err(|error| truncated(file, &error.to_string(), length))?;
    let header = u64::from_le_bytes(eight);
    check_length(file, header, length)?;
    let mut json =
        serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 16, reader.take(header)));
    let mut sums = Sums::default();
    let read = Tensors(&mut sums).deserialize(&mut json).and_then(|()| json.end());
    read.map_err(|error| refused(file, &error))?;
    if sums.tally.tensors == 0 {
        return Err(lies(file, "its header names no tensor"));
    }
    let bytes =
        sums.tally.bytes().ok_or_else(|| lies(file, "its tensors have more bytes than 64 bits count"))?;
    if bytes != sums.end {
        let message = format!(
            "its tensors have {bytes} bytes and end at byte {} of the data: some overlap or leave holes",
            sums.end
        );
        return Err(lies(file, &message));
    }
    // The length was checked above, so that the header lies inside.
    if let Some(data) = length.map(|length| length - 8 - header).filter(|data| *data != bytes) {
        let message = format!("its tensors have {bytes} bytes, but {data} bytes follow the header");
        return Err(lies(file, &message));
    }
    Ok(SafetensorsHeader { file: file.to_owned(), tally: sums.tally, bytes })
}

fn check_length(file: &str, header: u64, length: Option<u64>) -> Result<(), Diagnostics> {
    if header > MOST_HEADER {
        let message =
            format!("its first 8 bytes announce a header of {header} bytes; the format allows {MOST_HEADER}");
        return Err(lies(file, &message));
    }
    match length {
        Some(length) if header > length.saturating_sub(8) => {
            let message =
                format!("its first 8 bytes announce a header of {header} bytes, but the file has {length}");
            Err(lies(file, &message))
        }
        _ if header < 2 => Err(lies(file, "its first 8 bytes announce an empty header")),
        _ => Ok(()),
    }
}

fn truncated(file: &str, error: &str, length: Option<u64>) -> Diagnostics {
    let has = length.map(|n| format!(": it has {n} bytes")).unwrap_or_default();
    Diagnostic::error(
        file,
        "model-truncated",
        format!("the file ends inside of the header's length ({error}){has}"),
    )
    .fix("fetch the file again, whole")
    .into()
}

fn lies(file: &str, message: &str) -> Diagnostics {
    Diagnostic::error(file, "model-length", message)
        .fix("the file is cut off, damaged or no safetensors file: fetch it again, whole")
        .into()
}

fn refused(file: &str, error: &serde_json::Error) -> Diagnostics {
    // Headers are one line; the column counts bytes.
    let at = error.column() + 8;
    let text = error.to_string();
    let message = text.split(" at line ").next().unwrap_or_default().to_owned();
    let found = if error.is_eof() || error.is_io() {
        Diagnostic::error(file, "model-truncated", format!("the header is cut off at byte {at} ({message})"))
    } else if error.is_data() {
        Diagnostic::error(file, "model-shape", format!("byte {at} of the file: {message}"))
    } else {
        Diagnostic::error(file, "model-json", format!("the header is no JSON at byte {at}: {message}"))
    };
    found.fix("fetch the file again, whole; if it stays so, it is no safetensors file").into()
}

#[derive(Default)]
struct Sums {
    tally: Tally,
    /// The farthest end of a tensor.
    end: u64,
}

/// The header's object: tensors by name, and `__metadata__`.
struct Tensors<'a>(&'a mut Sums);

impl<'de> DeserializeSeed<'de> for Tensors<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Tensors<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let tensor: Tensor = map.next_value()?;
            add(self.0, &name, &tensor)
                .map_err(|why| A::Error::custom(format!("tensor `{}`: {why}", shown(&name))))?;
        }
        Ok(())
    }
}

/// One tensor. Other fields do not occur in the format.
#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: Shape,
    data_offsets: (u64, u64),
}

/// A shape, of which only what is needed is kept.
struct Shape {
    rank: usize,
    /// `None` beyond 64 bits.
    elements: Option<u64>,
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Sizes;
        impl<'de> Visitor<'de> for Sizes {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of sizes")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Shape, A::Error> {
                let mut shape = Shape { rank: 0, elements: Some(1) };
                while let Some(size) = list.next_element::<u64>()? {
                    shape.rank += 1;
                    shape.elements = shape.elements.and_then(|n| n.checked_mul(size));
                    if shape.rank > MOST_RANK {
                        return Err(A::Error::custom("a tensor has more than 32 dimensions"));
                    }
                }
                Ok(shape)
            }
        }
        deserializer.deserialize_seq(Sizes)
    }
}

fn add(sums: &mut Sums, name: &str, tensor: &Tensor) -> Result<(), String> {
    let (begin, end) = tensor.data_offsets;
    let Some(bytes) = end.checked_sub(begin) else {
        return Err(format!("ends at {end}, before it begins at {begin}"));
    };
    let Some(elements) = tensor.shape.elements else {
        return Err("has more elements than 64 bits count".to_owned());
    };
    // A type that came after this program still has bytes.
    let kind = DataType::of_safetensors(&tensor.dtype);
    if let Some(kind) = kind {
        let wanted = kind.bytes_of(elements);
        if wanted != Some(bytes) {
            let wanted = wanted.map_or("more than 64 bits count".to_owned(), |n| n.to_string());
            return Err(format!("{elements} elements of {} take {wanted} bytes, not {bytes}", tensor.dtype));
        }
    }
    sums.end = sums.end.max(end);
    sums.tally
        .add(name, tensor.shape.rank, kind, elements, bytes)
        .ok_or_else(|| "its bytes and those before make more than 64 bits count".to_owned())
}
