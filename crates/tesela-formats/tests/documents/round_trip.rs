//! What `write_demand` writes reads back as what it was written from.
