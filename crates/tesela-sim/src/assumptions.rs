//! Where no source tells what a driver does: what the simulated one does.
