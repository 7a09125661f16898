//! The driver of a node's GPUs through NVIDIA's own library, `libnvidia-ml.so.1`.
//!
//! [`Session`] is the port `GpuDriver` over the real library (or over the emulated one, which has the same C
//! interface). It loads the library at run time, so a program with it starts on a machine without GPUs. A function
//! that an older library lacks is the code `FunctionNotFound` of that call alone.
//!
//! [`Recorder`] writes down what a driver answers, [`Replay`] answers from such a record: what a real machine said
//! becomes a fixture.
//!
//! Together with the emulated library this is one of the two crates with `unsafe`. It is confined to the modules under
//! `raw`, one wrapper for each function of NVML; nothing there decides anything.

mod load;
mod raw;
mod record;
mod session;

pub use self::load::{OpenError, Search, advice};
pub use self::record::{Ask, Exchange, Fixture, FixtureError, Recorder, Replay};
pub use self::session::Session;
