//! Text in and out, strict, each value with its file, line and column.

pub mod de;
pub mod diagnostic;
pub mod sniff;
pub mod source;
pub mod tree;
