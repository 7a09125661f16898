//! The C interface of NVML: one function for each that NVIDIA's header declares.
//!
//! What each does is what NVIDIA's header says of it; which ones do it in full, and which answer that they are not
//! supported, stands in `data/functions.tsv`. The functions are not `unsafe`: what C callers give comes as types of
//! [`pointer`] and [`handle`], which are read and written in that module alone.

#![allow(non_snake_case, reason = "functions and fields have the names of NVIDIA's header")]

/// Functions of the C interface: each holds the session, answers a code, and never unwinds.
macro_rules! functions {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) = |$live:ident| $body:expr;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name($($arg: $type),*) -> $crate::live::Reply {
            $crate::live::call(stringify!($name), |$live| -> $crate::abi::pointer::Done { $body })
        }
    )*};
}

mod events;
mod fields;
mod gpm;
pub(crate) mod handle;
mod identity;
mod instances;
mod memory;
mod mig;
pub(crate) mod pointer;
mod power;
mod process;
mod strings;
mod system;

/// Everything else that NVML declares, made by the build from `data/functions.tsv`.
mod unsupported {
    include!(concat!(env!("OUT_DIR"), "/unsupported.rs"));
}
