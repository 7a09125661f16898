//! The command line of Tesela.
fn main() {}
