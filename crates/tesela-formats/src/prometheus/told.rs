//! What is said of an answer beside its series.

use tesela_model::finding::{Finding, Severity};

use super::{COMMAND, Reading};

impl Reading {
    /// Findings about what was left out or is doubtful; none when everything was used. `file` as the user called it.
    #[must_use]
    pub fn findings(&self, file: &str) -> Vec<Finding> {
        let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
        let subject = format!("Usage/{name}");
        let one = |severity, rule: &str, message: String, fix: &str| Finding {
            severity,
            rule: rule.into(),
            subject: subject.clone(),
            message,
            fix: fix.into(),
        };
        let mut found = Vec::new();
        if self.not_numbers + self.out_of_range > 0 {
            let message = format!(
                "{} NaN or infinite and {} out of the metric's range, of {}; they were left out",
                is(self.not_numbers, "sample"),
                self.out_of_range,
                self.samples.saturating_add(self.not_numbers).saturating_add(self.out_of_range),
            );
            let fix = "look at the exporter: it writes such values where a counter cannot be read";
            found.push(one(Severity::Warning, "usage-not-numbers", message, fix));
        }
        if self.disordered > 0 {
            let message = format!(
                "times go back in {}; the samples were taken by their times",
                counted(self.disordered, "series")
            );
            let fix = "Prometheus writes rising times: save the answer again if somebody edited the file";
            found.push(one(Severity::Warning, "usage-out-of-order", message, fix));
        }
        if self.util_may_be_ratio {
            let message = "every DCGM_FI_DEV_GPU_UTIL is at most 1 and some are fractions: a share from 0 to 1, or percents of idle GPUs. Which of the two is not known, so none of them was used";
            let fix = "ask for DCGM_FI_PROF_GR_ENGINE_ACTIVE, or for a time with work";
            found.push(one(Severity::Warning, "usage-unit-unclear", message.into(), fix));
        }
        if !self.warnings.is_empty() {
            let message =
                format!("Prometheus warned, so the answer may be partial: {}", self.warnings.join("; "));
            let fix = "look whether all its stores answered, and save the answer again";
            found.push(one(Severity::Warning, "usage-server-warned", message, fix));
        }
        found.extend(self.left_out().map(|what| {
            let message = format!("left out: {what}");
            one(
                Severity::Info,
                "usage-left-out",
                message,
                &format!("`{COMMAND}` prints queries whose answers are used"),
            )
        }));
        if self.empty > 0 {
            let message = format!(
                "{} of {} matched nothing",
                self.empty,
                counted(self.answers, if self.answers == 1 { "query" } else { "queries" })
            );
            let fix =
                "nothing to do where the exporter does not offer that metric (profiling counters may be off)";
            found.push(one(Severity::Info, "usage-empty-answer", message, fix));
        }
        found
    }

    fn left_out(&self) -> Option<String> {
        let mut parts = Vec::new();
        let unknown = self.unknown.values().sum::<u64>();
        if unknown > 0 {
            let names = self.unknown.keys().map(String::as_str).take(3).collect::<Vec<_>>().join(", ");
            let more = if self.unknown.len() > 3 { ", …" } else { "" };
            parts.push(format!(
                "{} of metrics that do not tell use ({names}{more})",
                counted(unknown, "series")
            ));
        }
        if self.unnamed > 0 {
            parts.push(format!("{} without a metric's name", counted(self.unnamed, "series")));
        }
        if self.unlabelled > 0 {
            parts.push(format!("{} that name no pod and no GPU", counted(self.unlabelled, "series")));
        }
        if self.histograms > 0 {
            parts.push(format!("{} of histograms", counted(self.histograms, "series")));
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

fn counted(count: u64, one: &str) -> String {
    if count == 1 || one.ends_with('s') { format!("{count} {one}") } else { format!("{count} {one}s") }
}

fn is(count: u64, one: &str) -> String {
    format!("{} {}", counted(count, one), if count == 1 { "is" } else { "are" })
}
