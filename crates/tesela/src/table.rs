//! Results for people: pages of styled lines. Pure; the printer decides about colour and characters.

pub(crate) mod certificate;
pub(crate) mod columns;
pub(crate) mod estimate;
pub(crate) mod gpus;
pub(crate) mod layouts;
pub(crate) mod lint;
pub(crate) mod mig;
pub(crate) mod pack;
pub(crate) mod plan;
pub(crate) mod reconfigure;
pub(crate) mod render;
pub(crate) mod sim;
pub(crate) mod text;
pub(crate) mod tile;
pub(crate) mod usage;
pub(crate) mod words;
