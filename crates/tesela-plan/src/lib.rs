//! Pure decisions: layouts, packing with certificate, mode, placement, quotas, cost, validation.
