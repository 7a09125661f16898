//! Waiting, always with a limit.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How often the world is looked at.
const PAUSE: Duration = Duration::from_millis(50);

/// Looks until something is there.
///
/// # Errors
/// What `look` fails with, at once; or that `what` was not so within the limit, with what `look` last said of it.
pub fn until<T>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut(&mut String) -> Result<Option<T>>,
) -> Result<T> {
    let begin = Instant::now();
    let mut seen = String::new();
    loop {
        if let Some(found) = look(&mut seen)? {
            return Ok(found);
        }
        if begin.elapsed() >= limit {
            let seen = if seen.is_empty() { String::new() } else { format!(": {seen}") };
            bail!("not within {} s: {what}{seen}", limit.as_secs());
        }
        sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_with_what_was_last_seen() {
        let told = until::<()>("the sun", Duration::ZERO, |seen| {
            "clouds".clone_into(seen);
            Ok(None)
        });
        assert_eq!(told.unwrap_err().to_string(), "not within 0 s: the sun: clouds");
    }

    #[test]
    fn a_fault_ends_the_waiting() {
        let told = until::<()>("the sun", Duration::from_secs(60), |_| bail!("it is gone"));
        assert_eq!(told.unwrap_err().to_string(), "it is gone");
    }
}
