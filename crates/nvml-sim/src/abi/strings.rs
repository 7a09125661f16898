//! Texts of return codes. Programs match on some of NVML's own, so these are NVML's words: the header's names of the
//! codes say what each is.

use std::ffi::CStr;

use crate::live::Reply;

/// The text of a code.
pub(crate) fn meaning(code: Reply) -> &'static CStr {
    match code {
        0 => c"Success",
        1 => c"Uninitialized",
        2 => c"Invalid Argument",
        3 => c"Not Supported",
        4 => c"Insufficient Permissions",
        5 => c"Already Initialized",
        6 => c"Not Found",
        7 => c"Insufficient Size",
        8 => c"Insufficient External Power",
        9 => c"Driver Not Loaded",
        10 => c"Timeout",
        11 => c"Interrupt Request Issue",
        12 => c"NVML Shared Library Not Found",
        13 => c"Function Not Found",
        14 => c"Corrupted infoROM",
        15 => c"GPU is lost",
        16 => c"GPU requires reset",
        17 => c"GPU access blocked by the operating system",
        18 => c"Driver/library version mismatch",
        19 => c"In use by another client",
        20 => c"Insufficient Memory",
        21 => c"No data",
        22 => c"vGPU operation is not supported with ECC enabled",
        23 => c"Insufficient Resources",
        24 => c"Frequency not supported",
        25 => c"Argument version mismatch",
        26 => c"Deprecated",
        27 => c"System not ready",
        28 => c"GPU not found",
        29 => c"Invalid state",
        30 => c"Reset type not supported",
        _ => c"Unknown Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tesela_model::driver::Code;

    #[test]
    fn every_code_has_a_text_of_its_own() {
        let mut texts = std::collections::BTreeSet::from([meaning(0)]);
        for code in Code::ALL {
            assert!(texts.insert(meaning(code.number())), "{code}");
        }
        assert_eq!(meaning(12345), meaning(999));
    }
}
