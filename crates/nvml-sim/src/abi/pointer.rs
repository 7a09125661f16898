//! Pointers that C callers give, as types: what may be read or written through each, and when.
//!
//! Programs that load the library promise what NVML's header says of each argument: a pointer is null, or points to so
//! many values of that type that may be read or written for the time of the call. Nothing else can be known of it, and
//! nothing else is assumed: null is refused with a code, alignment is not relied upon, and no reference is ever made
//! from such a pointer. The types are built by the call itself (they have the layout of a pointer), or by
//! `unsafe` code; safe Rust cannot make one.

use std::ffi::{c_char, c_uint};

use tesela_model::driver::Code;

/// How a function of the C interface ends.
pub(crate) type Done = Result<(), Code>;

/// A place for one value.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Out<T>(*mut T);

/// A value that is read, and may be written.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct InOut<T>(*mut T);

/// A value that is read.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct In<T>(*const T);

/// A place for several values; how many comes with another argument.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Items<T>(*mut T);

/// A place for a text; its length comes with another argument.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Chars(*mut c_char);

/// A text that ends with a zero.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Text(*const c_char);

/// A struct that begins with its version, an unsigned int: which struct it is, the version says.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Versioned(*mut c_uint);

impl<T> Out<T> {
    /// Refuses null, for functions that change something before they answer.
    pub(crate) fn check(&self) -> Done {
        if self.0.is_null() { Err(Code::InvalidArgument) } else { Ok(()) }
    }

    /// Writes the value.
    pub(crate) fn put(self, value: T) -> Done {
        self.check()?;
        // SAFETY: needed to answer a C caller. Not null; the caller promises room for one `T` that may be written.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }
}

impl<T: Copy> InOut<T> {
    /// The value.
    pub(crate) fn get(&self) -> Result<T, Code> {
        if self.0.is_null() {
            return Err(Code::InvalidArgument);
        }
        // SAFETY: needed to read what a C caller gives. Not null; the caller promises one `T` that may be read.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Writes the value.
    pub(crate) fn put(&self, value: T) -> Done {
        Out(self.0).put(value)
    }
}

impl<T: Copy> In<T> {
    /// The value.
    pub(crate) fn get(&self) -> Result<T, Code> {
        InOut(self.0.cast_mut()).get()
    }
}

impl<T: Copy> Items<T> {
    /// The place in a field of a struct that a caller gave.
    pub(crate) fn of(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// Whether there is no place.
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The place of one value.
    fn at(&self, index: usize) -> *mut T {
        self.0.wrapping_add(index)
    }

    /// One value of an array that holds more than `index`.
    pub(crate) fn get(&self, index: usize) -> Result<T, Code> {
        if self.is_null() {
            return Err(Code::InvalidArgument);
        }
        InOut(self.at(index)).get()
    }

    /// Writes one value of an array that holds more than `index`.
    pub(crate) fn put(&self, index: usize, value: T) -> Done {
        if self.is_null() {
            return Err(Code::InvalidArgument);
        }
        Out(self.at(index)).put(value)
    }

    /// Writes values, as many as the header lets the function write.
    pub(crate) fn put_all(&self, values: &[T]) -> Done {
        values.iter().enumerate().try_for_each(|(index, value)| self.put(index, *value))
    }

    /// A list whose caller may ask for its length with a buffer that is too small, or null: then the answer is
    /// INSUFFICIENT_SIZE, or success where there is nothing to list.
    pub(crate) fn list(&self, count: &InOut<c_uint>, values: &[T]) -> Done {
        let room = count.get()?;
        let length = c_uint::try_from(values.len()).map_err(|_| Code::Unknown)?;
        if length > room || self.is_null() && length > 0 {
            count.put(length)?;
            return Err(Code::InsufficientSize);
        }
        self.put_all(values)?;
        count.put(length)
    }

    /// A list of which null asks for the length, with success.
    pub(crate) fn list_or_length(&self, count: &InOut<c_uint>, values: &[T]) -> Done {
        if self.is_null() {
            count.get()?;
            return count.put(c_uint::try_from(values.len()).map_err(|_| Code::Unknown)?);
        }
        self.list(count, values)
    }
}

impl Chars {
    /// Writes a text with its zero into a buffer of `length`.
    pub(crate) fn put(self, length: c_uint, text: &str) -> Done {
        let items = Items(self.0);
        if items.is_null() {
            return Err(Code::InvalidArgument);
        }
        let bytes = text.as_bytes();
        if usize::try_from(length).is_ok_and(|length| length <= bytes.len()) {
            return Err(Code::InsufficientSize);
        }
        for (index, byte) in bytes.iter().chain([&0]).enumerate() {
            items.put(index, c_char::from_ne_bytes([*byte]))?;
        }
        Ok(())
    }
}

/// Longest text that is read. NVML takes UUIDs, serial numbers and PCI addresses.
const LONGEST: usize = 256;

impl Text {
    /// The text, where it ends in time and is UTF-8.
    pub(crate) fn get(&self) -> Result<String, Code> {
        let items = Items(self.0.cast_mut());
        let mut bytes = Vec::new();
        while bytes.len() < LONGEST {
            // Read one after the other, since what lies behind the zero may not be read.
            match items.get(bytes.len())? {
                0 => return String::from_utf8(bytes).map_err(|_| Code::InvalidArgument),
                byte => bytes.extend(byte.to_ne_bytes()),
            }
        }
        Err(Code::InvalidArgument)
    }
}

impl Versioned {
    /// The version that the caller set.
    pub(crate) fn version(&self) -> Result<c_uint, Code> {
        InOut(self.0).get()
    }

    /// The struct, where its version is that of `T`.
    pub(crate) fn get<T: Copy>(&self, number: u32) -> Result<T, Code> {
        if self.version()? != version_of::<T>(number) {
            return Err(Code::ArgumentVersionMismatch);
        }
        // The version says that the caller's struct is a `T`.
        InOut(self.0.cast::<T>()).get()
    }

    /// Writes the struct, where the caller set the version of `T`.
    pub(crate) fn put<T>(&self, number: u32, value: T) -> Done {
        if self.version()? != version_of::<T>(number) {
            return Err(Code::ArgumentVersionMismatch);
        }
        Out(self.0.cast::<T>()).put(value)
    }
}

impl Versioned {
    /// The same place, for a struct whose version is a plain number that was checked.
    pub(crate) fn as_numbered<T: Copy>(&self) -> InOut<T> {
        InOut(self.0.cast())
    }

    /// What lies behind a head, for a struct that ends with an array.
    pub(crate) fn behind<H, T: Copy>(&self) -> Items<T> {
        if self.0.is_null() {
            return Items(std::ptr::null_mut());
        }
        Items(self.0.cast::<H>().wrapping_add(1).cast())
    }
}

/// The version of a struct: its size, and its number in the highest byte (NVML's NVML_STRUCT_VERSION).
#[expect(clippy::cast_possible_truncation, reason = "structs of NVML are far smaller than 16 MiB")]
pub(crate) const fn version_of<T>(number: u32) -> c_uint {
    size_of::<T>() as c_uint | number << 24
}

/// A text as an array with its zero; cut where it is too long.
pub(crate) fn chars<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    for (place, byte) in array.iter_mut().take(N.saturating_sub(1)).zip(text.bytes()) {
        *place = c_char::from_ne_bytes([byte]);
    }
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_refused() {
        let null = std::ptr::null_mut::<c_uint>();
        assert_eq!(Out(null).put(1), Err(Code::InvalidArgument));
        assert_eq!(InOut(null).get(), Err(Code::InvalidArgument));
        assert_eq!(Items(null).get(3), Err(Code::InvalidArgument));
        assert_eq!(Versioned(null).version(), Err(Code::InvalidArgument));
        assert_eq!(Chars(std::ptr::null_mut()).put(4, "a"), Err(Code::InvalidArgument));
        assert_eq!(Text(std::ptr::null()).get(), Err(Code::InvalidArgument));
    }

    #[test]
    fn a_text_needs_room_for_its_zero() {
        for (length, fits) in [(0, false), (2, false), (3, false), (4, true), (9, true)] {
            let mut buffer = [1; 10];
            let done = Chars(buffer.as_mut_ptr()).put(length, "abc");
            assert_eq!(done, if fits { Ok(()) } else { Err(Code::InsufficientSize) }, "{length}");
            let touched = buffer.iter().filter(|c| **c != 1).count();
            assert_eq!(touched, if fits { 4 } else { 0 }, "{length}");
        }
    }

    #[test]
    fn a_list_says_its_length_and_never_writes_beyond_the_room() {
        let values = [7, 8, 9];
        for room in 0..5 {
            let (mut buffer, mut count) = ([1_u32; 6], room);
            let done = Items(buffer.as_mut_ptr()).list(&InOut(&raw mut count), &values);
            assert_eq!(count, 3);
            assert_eq!(done.is_ok(), room >= 3);
            assert_eq!(buffer[3..], [1; 3]);
        }
        let mut count = 0;
        let null = Items(std::ptr::null_mut());
        assert_eq!(null.list(&InOut(&raw mut count), &values), Err(Code::InsufficientSize));
        assert_eq!(null.list(&InOut(&raw mut count), &[]), Ok(()));
        assert_eq!(null.list_or_length(&InOut(&raw mut count), &values), Ok(()));
        assert_eq!(count, 3);
    }

    #[test]
    fn a_text_without_an_end_is_refused() {
        let long = [c_char::from_ne_bytes([b'x']); LONGEST];
        assert_eq!(Text(long.as_ptr()).get(), Err(Code::InvalidArgument));
        assert_eq!(Text(c"GPU-1".as_ptr()).get().as_deref(), Ok("GPU-1"));
    }
}
