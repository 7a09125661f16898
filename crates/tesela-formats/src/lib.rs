//! Text in and out, strict, each value with its file, line and column.

pub mod de;
pub mod device_plugin;
pub mod diagnostic;
pub mod documents;
pub mod emit;
pub mod lint;
pub mod machine;
pub mod mig_parted;
pub mod model_files;
pub mod prometheus;
pub mod reading;
pub mod requests;
pub mod schema;
pub mod slo_profiles;
pub mod sniff;
pub mod source;
pub mod tree;
