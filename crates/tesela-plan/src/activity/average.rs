//! What multiplying averages would say. For comparison only: it is blind to who works when.

/// Share of the time in which more than `together` would be at work if each worked by itself, in 0 to 1: the tail of
/// a Poisson-binomial distribution, by dynamic programming over the tenants. A duty is (windows at work, windows).
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "counts of windows are far below 2^52")]
pub fn product_of_averages(duties: &[(u64, u64)], together: u32) -> f64 {
    // Chances that exactly k are at work, for k up to `together`.
    let mut exactly = vec![0.0; together as usize + 1];
    exactly[0] = 1.0;
    for &(at_work, windows) in duties {
        let duty = if windows == 0 { 1.0 } else { at_work.min(windows) as f64 / windows as f64 };
        for k in (0..exactly.len()).rev() {
            let before = if k == 0 { 0.0 } else { exactly[k - 1] };
            exactly[k] = exactly[k] * (1.0 - duty) + before * duty;
        }
    }
    (1.0 - exactly.iter().sum::<f64>()).max(0.0)
}

/// How many of the first tenants would fit by that.
#[must_use]
pub fn fits_by_averages(duties: &[(u64, u64)], together: u32, risk_ppm: u32) -> usize {
    let fits = |count: &usize| {
        *count <= together as usize
            || product_of_averages(&duties[..*count], together) <= f64::from(risk_ppm) / 1e6
    };
    (0..=duties.len()).take_while(fits).last().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of binomial tails for equal duties: largest count, by (risk in ppm, together) and duty in percent.
    #[test]
    fn equal_duties_give_the_binomial_table() {
        let duties = [1, 2, 5, 10, 20, 30, 50];
        let rows: [(u32, u32, [usize; 7]); 5] = [
            (10_000, 1, [15, 7, 3, 2, 1, 1, 1]),
            (10_000, 2, [44, 22, 9, 5, 3, 2, 2]),
            (10_000, 3, [83, 42, 17, 9, 5, 4, 3]),
            (1_000, 2, [19, 10, 4, 3, 2, 2, 2]),
            (1_000, 3, [44, 22, 9, 5, 3, 3, 3]),
        ];
        for (risk, together, expected) in rows {
            for (duty, count) in duties.iter().zip(expected) {
                let all = vec![(*duty, 100); 100];
                assert_eq!(fits_by_averages(&all, together, risk), count, "{risk} {together} {duty}");
            }
        }
    }
}
