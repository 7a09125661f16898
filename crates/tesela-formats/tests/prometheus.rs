//! Saved answers of Prometheus: every form that people save, and what is said of those that tell nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test stops at the first surprise")]

use std::io::Read;

use proptest::prelude::*;
use serde_json::{Value, json};
use tesela_formats::diagnostic::Diagnostics;
use tesela_formats::prometheus::{Reading, Vintage, read, usage_queries};
use tesela_model::demand::PodRef;
use tesela_model::usage::{Metric, Sample, UsageSeries};

fn all(input: impl Read) -> Result<(Reading, Vec<UsageSeries>), Diagnostics> {
    let mut found = Vec::new();
    let reading = read("u.json", input, &mut |series| found.push(series))?;
    Ok((reading, found))
}

fn good(text: &str) -> (Reading, Vec<UsageSeries>) {
    all(text.as_bytes()).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// What is said of an input that is refused.
fn refused(text: impl AsRef<[u8]>, mentions: &[&str]) {
    let text = text.as_ref();
    let error = all(text).expect_err(&String::from_utf8_lossy(text)).to_string();
    assert!(error.starts_with("u.json"), "{error}");
    for mention in mentions {
        assert!(error.contains(mention), "{mention:?} is not said: {error}");
    }
}

#[expect(clippy::needless_pass_by_value, reason = "a value written in place reads better than one borrowed")]
fn series(metric: &str, value: Value) -> Value {
    json!({
        "metric": {"__name__": metric, "pod": "p", "namespace": "n", "UUID": "GPU-1"},
        "value": [1_764_500_000.5, value],
    })
}

fn vector(result: &[Value]) -> String {
    json!({"status": "success", "data": {"resultType": "vector", "result": result}}).to_string()
}

fn used(value: Value) -> String {
    vector(&[series("DCGM_FI_DEV_FB_USED", value)])
}

#[test]
fn an_instant_answer_is_read() {
    let (reading, found) = good(&used(json!("2")));
    let [only] = &found[..] else { panic!("{found:?}") };
    assert_eq!(only.metric, Metric::MemoryUsed);
    assert_eq!(only.subject.pod, Some(PodRef { namespace: "n".into(), name: "p".into() }));
    assert_eq!(only.samples, [Sample { at_ms: 1_764_500_000_500, value: 2048 }]);
    assert_eq!((reading.answers, reading.series, reading.samples), (1, 1, 1));
}

#[test]
fn a_range_answer_is_read_and_its_faults_are_counted() {
    let values = json!([[10, "50"], [20, "NaN"], [30, "+Inf"], [25, "200"], [40, "-1"], [35, "100"]]);
    let one = json!({"metric": {"pod": "p", "namespace": "n", "__name__": "DCGM_FI_DEV_GPU_UTIL"}, "values": values});
    let text = json!({"status": "success", "data": {"resultType": "matrix", "result": [one]}}).to_string();
    let (reading, found) = good(&text);
    assert_eq!((reading.not_numbers, reading.out_of_range, reading.disordered), (2, 2, 0));
    assert_eq!(
        found[0].samples,
        [Sample { at_ms: 10_000, value: 500_000 }, Sample { at_ms: 35_000, value: 1_000_000 }]
    );
    let (reading, _) = good(&text.replace("[25,\"200\"]", "[25,\"20\"]").replace("[10,", "[28,"));
    assert_eq!((reading.disordered, reading.samples), (1, 3));
}

#[test]
fn several_answers_of_every_wrapping_are_one_input() {
    let answer = used(json!("2"));
    let bare = answer.replace("\"__name__\":\"DCGM_FI_DEV_FB_USED\",", "");
    let empty = vector(&[]);
    let labelled = answer.replace("__name__", "metric");
    let data = serde_json::from_str::<Value>(&answer).unwrap()["data"].to_string();
    let (_, wanted) = good(&answer);
    for (text, copies) in [
        (format!("{answer}\n{answer}\n"), 2),
        (format!("{answer}{answer}{empty}"), 2),
        (format!("[{answer},{answer},\n{answer}]"), 3),
        (format!(r#"{{"query":"max_over_time(DCGM_FI_DEV_FB_USED[5m])","answer":{bare}}}"#), 1),
        (format!(r#"{{"expr":"DCGM_FI_DEV_FB_USED","response":{bare}}}"#), 1),
        (labelled, 1),
        (data, 1),
        (format!("\u{feff}{answer}"), 1),
    ] {
        let (reading, found) = good(&text);
        assert_eq!(found.len(), copies, "{text}");
        assert!(found.iter().all(|one| *one == wanted[0]), "{text}");
        assert_eq!(reading.empty, u64::from(text.contains("\"result\":[]")), "{text}");
    }
}

#[test]
fn series_that_tell_nothing_are_counted_beside_others() {
    let known = series("DCGM_FI_DEV_FB_USED", json!("2"));
    let other = series("DCGM_FI_DEV_SM_CLOCK", json!("2"));
    let mut nowhere = known.clone();
    nowhere["metric"] = json!({"__name__": "DCGM_FI_DEV_FB_USED", "job": "x"});
    let mut unnamed = known.clone();
    unnamed["metric"].as_object_mut().unwrap().remove("__name__");
    let histogram = json!({"metric": {"__name__": "DCGM_FI_DEV_FB_USED", "pod": "p", "namespace": "n"}, "histogram": [1, {}]});
    let text = vector(&[known, other.clone(), other, nowhere, unnamed, histogram]);
    let text = text.replace("\"status\"", "\"warnings\":[\"a  store did\\nnot answer\"],\"status\"");
    let (reading, found) = good(&text);
    assert_eq!(found.len(), 1);
    assert_eq!(reading.unknown.get("DCGM_FI_DEV_SM_CLOCK"), Some(&2));
    assert_eq!((reading.unlabelled, reading.unnamed, reading.histograms), (1, 1, 1));
    assert_eq!(reading.warnings, ["a store did not answer"]);
}

#[test]
fn a_value_that_can_be_no_name_is_none() {
    for name in ["a\u{1b}[2Jb", "two words", "ñ", &"x".repeat(254)] {
        let mut odd = series("DCGM_FI_DEV_FB_USED", json!("2"));
        odd["metric"]["pod"] = json!(name);
        assert_eq!(good(&vector(&[odd])).1[0].subject.pod, None, "{name}");
    }
}

#[test]
fn a_ratio_under_the_name_of_a_percent_is_seen() {
    let util = |value: &str| vector(&[series("DCGM_FI_DEV_GPU_UTIL", json!(value))]);
    assert!(good(&util("0.4")).0.util_may_be_ratio);
    assert!(!good(&util("40")).0.util_may_be_ratio);
    assert!(!good(&util("0")).0.util_may_be_ratio);
    assert!(!good(&format!("{}{}", util("0.4"), util("3"))).0.util_may_be_ratio);
}

#[test]
fn what_is_no_answer_says_what_it_is() {
    refused("", &["empty", "curl"]);
    refused("<!doctype html><html>", &["u.json:1:1", "HTML", "--print-usage-query"]);
    refused(b"\xFF\xFE{\0", &["UTF-16"]);
    refused(b"\x1F\x8B\x08", &["compressed"]);
    refused("# HELP DCGM_FI_DEV_FB_USED x\n", &["/metrics"]);
    refused("curl: (7) Failed to connect\n", &["not JSON", "/api/v1/query"]);
    refused(r#"{"kind":"List","items":[]}"#, &["u.json:1:", "no answer of Prometheus"]);
    refused("[[[[[[[[1]]]]]]]]", &["too deep"]);
    refused(
        "{\"status\":\"success\",\n\"data\":{\"result\":[{]}}",
        &["u.json:2:20", "before the first whole series"],
    );
    let cut = used(json!("2"));
    refused(&cut[..cut.len() / 2], &["u.json:1:", "cut off", "before the first whole series", "curl"]);
    refused(format!("{}{}", cut, &cut[..20]), &["cut off", "after 1 whole series"]);
}

#[test]
fn the_servers_error_is_told() {
    let error = r#"{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\": 1:5: parse error"}"#;
    refused(error, &["u.json:1:", "bad_data", "1:5: parse error"]);
    // After good answers too: the file is void then.
    refused(format!("{}\n{error}", used(json!("2"))), &["u.json:2:", "bad_data"]);
}

#[test]
fn answers_without_use_say_what_was_looked_for() {
    refused(vector(&[]), &["the query matched nothing"]);
    refused(format!("{0}{0}", vector(&[])), &["no query matched anything"]);
    refused(vector(&[]).replace("[]", "null"), &["matched nothing"]);
    refused(
        vector(&[series("DCGM_FI_DEV_FB_USE", json!("1"))]),
        &["`DCGM_FI_DEV_FB_USE`", "did you mean DCGM_FI_DEV_FB_USED?", "DCGM_FI_DEV_GPU_UTIL"],
    );
    let nameless = used(json!("1")).replace("\"__name__\":\"DCGM_FI_DEV_FB_USED\",", "");
    refused(nameless, &["`__name__`", "label_replace"]);
    let elsewhere =
        json!({"metric": {"__name__": "DCGM_FI_DEV_FB_USED", "Pod": "p", "job": "x"}, "value": [1, "1"]});
    refused(
        vector(&[elsewhere]),
        &["looked for pod", "there are Pod, __name__, job", "`Pod` is near to `pod`"],
    );
    let bare = json!({"metric": {"__name__": "DCGM_FI_DEV_FB_USED"}, "value": [1, "1"]});
    refused(vector(&[bare]), &["no series names its pod or GPU", "__name__"]);
    refused(used(json!("NaN")), &["no sample is a usable number: 1 are NaN"]);
    refused(used(json!("abc")), &["`abc` is no number", "u.json:1:"]);
    refused(used(json!("1")).replace("1764500000.5", "1764500000500"), &["1764500000500", "seconds"]);
    refused(
        r#"{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}"#,
        &["a scalar or a string"],
    );
    refused(r#"{"status":"success","data":{"result":[{"metric":{},"values":[[1]]}]}}"#, &["u.json:1:"]);
}

#[test]
fn a_series_without_end_is_refused() {
    let head = br#"{"status":"success","data":{"result":[{"metric":{"pod":"p"},"values":["#;
    let endless = (&head[..]).chain(std::io::repeat(b' ').take(9));
    let pairs = b"[1,\"1\"],".repeat(100_001);
    let error = all(endless.chain(&pairs[..])).unwrap_err().to_string();
    assert!(error.contains("more than 100000 samples"), "{error}");
}

/// The names that queries put in are the names that the reader knows.
#[test]
fn the_printed_queries_are_understood() {
    for vintage in [Vintage::Plain, Vintage::Exported] {
        let queries = usage_queries(vintage);
        assert_eq!(queries.len(), 3);
        for query in queries {
            let bare = used(json!("1")).replace("\"__name__\":\"DCGM_FI_DEV_FB_USED\",", "");
            // A query says which metric its answer is of when it stands before it.
            let wrapped = format!(r#"{{"query":{},"answer":{bare}}}"#, json!(query.query));
            assert_eq!(good(&wrapped).1[0].metric.name(), query.metric);
            let parts = |c| query.query.matches(c).count();
            assert_eq!((parts('('), parts('{'), parts('[')), (parts(')'), parts('}'), parts(']')));
        }
    }
}

/// A reader that gives a few bytes at a time.
struct Drops<'a>(&'a [u8]);

impl Read for Drops<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let some = self.0.len().min(buffer.len()).min(7);
        buffer[..some].copy_from_slice(&self.0[..some]);
        self.0 = &self.0[some..];
        Ok(some)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What is read does not depend on how the bytes come, and whatever is cut off is refused or whole.
    #[test]
    fn chunks_and_cuts(values in prop::collection::vec((0u32..4_000_000, 0.0f64..200.0), 1..20), cut in 0usize..400) {
        let pairs = values.iter().map(|(t, v)| json!([t, v.to_string()])).collect::<Vec<_>>();
        let one = json!({"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": "GPU-1"}, "values": pairs});
        let text = vector(&[one]);
        let whole = all(text.as_bytes());
        prop_assert_eq!(&whole, &all(Drops(text.as_bytes())));
        if let Ok((reading, found)) = &whole {
            let samples = found.iter().map(|s| s.samples.len() as u64).sum::<u64>();
            prop_assert_eq!(reading.samples, samples);
            prop_assert_eq!(samples + reading.out_of_range, values.len() as u64);
        }
        let cut = cut % text.len();
        prop_assert!(all(&text.as_bytes()[..cut]).is_err());
    }
}
