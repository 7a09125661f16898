//! Results for people: pages of styled lines. Pure; the printer decides about colour and characters.

pub(crate) mod columns;
pub(crate) mod layouts;
pub(crate) mod text;
pub(crate) mod tile;
pub(crate) mod words;
