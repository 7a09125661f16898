//! Text in and out, strict, each value with its file, line and column.
