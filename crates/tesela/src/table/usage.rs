//! The queries for `--usage` as a script that can be run.

use tesela_formats::prometheus::{STEP, UsageQuery, Vintage};

use super::text::{Line, Page, Style};

/// Puts the script on a page.
pub(crate) fn put(page: &mut Page, queries: &[UsageQuery]) {
    let mut say = |text: &str| page.line(Line::styled(Style::Faint, format!("# {text}")));
    say(
        "A week of GPU use for `tesela plan --usage`. Put in the address of your Prometheus, for instance behind",
    );
    say("  kubectl -n monitoring port-forward svc/prometheus-operated 9090");
    page.line(Line::plain("PROMETHEUS=http://127.0.0.1:9090"));
    page.line(Line::plain("END=$(date +%s)"));
    page.line(Line::plain("START=$((END - 7 * 24 * 3600))"));
    page.line(Line::plain("ask() {"));
    page.line(Line::plain(
        "  curl -fsS \"$PROMETHEUS/api/v1/query_range\" --data-urlencode \"query=$1\" --data-urlencode \"start=$START\" \\",
    ));
    page.line(Line::plain(format!("    --data-urlencode \"end=$END\" --data-urlencode step={STEP} && echo")));
    page.line(Line::plain("}"));
    page.line(Line::plain("{"));
    for query in queries.iter().filter(|q| q.labels == Vintage::Plain) {
        page.line(Line::plain(format!("  ask '{}'", query.query)));
    }
    page.line(Line::plain("} > usage.json"));
    let mut say = |text: &str| page.line(Line::styled(Style::Faint, format!("# {text}")));
    say(
        "Where Prometheus keeps the words pod and namespace for its targets, the answers name only the exporter's own",
    );
    say("pods. Then ask with the other labels, in place of the three lines above:");
    for query in queries.iter().filter(|q| q.labels == Vintage::Exported) {
        say(&format!("  ask '{}'", query.query));
    }
    say("Then: tesela plan cluster.json --usage usage.json");
}
