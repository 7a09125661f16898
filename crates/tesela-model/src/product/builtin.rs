use super::rows::ProductRow;
pub(super) static ROWS: &[ProductRow] = &[];
