//! The vocabulary of Tesela as types that cannot be built wrong.
