//! Request logs: what is read, what is refused and where, and what becomes of it.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use proptest::prelude::*;
use tesela_formats::diagnostic::Diagnostic;
use tesela_formats::requests::{Recorder, ServiceTime, read};
use tesela_model::activity::{Activity, Window};

fn fault(text: &str) -> String {
    let error = read("log.csv", text.as_bytes(), |_| Ok(())).unwrap_err();
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

const OWN: &str = "time,namespace,workload,seconds\n";

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let cases = [
        ("", "log.csv: the file is empty [no-header]"),
        (
            "time,namespace,workloads,seconds\n",
            "log.csv:1:16: `workloads` is no known column [unknown-column]",
        ),
        (
            "time,time,namespace,workload,seconds\n",
            "log.csv:1:6: the column `time` stands twice [duplicate-column]",
        ),
        ("time,namespace,workload\n", "log.csv:1:1: there is no column `input_tokens` [missing-column]"),
        ("TIMESTAMP,ContextTokens\n", "log.csv:1:1: there is no column `GeneratedTokens` [missing-column]"),
        (
            "time,namespace,workload,input_tokens,output_tokens,seconds\n",
            "log.csv:1:1: there are columns of tokens and of seconds; one of the two says how long requests take \
             [two-measures]",
        ),
        (OWN, "log.csv: the file holds a header and no request [no-requests]"),
        (
            "time,namespace,workload,seconds\n1,a,b,NaN\n",
            "log.csv:2:7: the duration `NaN` must be a decimal number of seconds, 0 or more [invalid-number]",
        ),
        (
            "time,namespace,workload,seconds\n1,a,b,-1\n",
            "log.csv:2:7: the duration `-1` must be a decimal number of seconds, 0 or more [invalid-number]",
        ),
        (
            "time,namespace,workload,seconds\n1,a,b,1\nNaN,a,b,1\n",
            "log.csv:3:1: the time `NaN` must be seconds, or a date and time in UTC [invalid-time]",
        ),
        (
            "time,namespace,workload,seconds\n2,a,b,1\n1.5,a,b,1\n",
            "log.csv:3:1: `1.5` is 500 ms before the time of the line above [wrong-order]",
        ),
        (
            "time,namespace,workload,seconds\n1,a,B,1\n",
            "log.csv:2:5: the workload `B` is no name in Kubernetes [invalid-name]",
        ),
        (
            "time,namespace,workload,seconds\n1,a,b\n",
            "log.csv:2:5: the line has 3 values, the header 4 columns [wrong-columns]",
        ),
        (
            "time,namespace,workload,seconds\n1,a,b,1,2\n",
            "log.csv:2:9: the line has 5 values, the header 4 columns [wrong-columns]",
        ),
        ("time,namespace,workload,seconds\n1,\"a\",b,1\n", "log.csv:2:3: the value is quoted [quoted-value]"),
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,-1,10\n",
            "log.csv:2:21: the count of input tokens `-1` must be a whole number, 0 or more [invalid-number]",
        ),
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,1,4000000000\n",
            "log.csv:2:23: the count of output tokens `4000000000` is beyond anything real [number-range]",
        ),
        (
            "time,namespace,workload,seconds\n1700158623980,a,b,1\n",
            "log.csv:2:1: the time `1700158623980` is beyond the year 2286 [number-range]",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(fault(text), expected, "{text:?}");
    }
    let long = format!("{OWN}{}", "1".repeat(5000));
    assert_eq!(
        fault(&long),
        "log.csv:2:1: the line is longer than 4096 bytes, which no request needs [line-too-long]"
    );
    let latin = [OWN.as_bytes(), b"1,a\xff,b,1\n"].concat();
    let error = read("log.csv", latin.as_slice(), |_| Ok(())).unwrap_err();
    assert!(error.to_string().starts_with("log.csv:2:4: the line is not UTF-8 [not-utf8]"), "{error}");
}

fn record(logs: &[&str]) -> Result<Activity, Diagnostic> {
    let service = ServiceTime::parse("100,0,1000").unwrap();
    let mut recorder = Recorder::new(1000, Some(service))?;
    for (k, log) in logs.iter().enumerate() {
        recorder.log(&format!("{k}.csv"), log.as_bytes(), None)?;
    }
    recorder.finish()
}

fn of<'a>(activity: &'a Activity, workload: &str) -> &'a [Window] {
    &activity.series().iter().find(|s| s.name.workload == workload).unwrap().windows
}

fn window(active: u16, busy_permille: u16) -> Window {
    Window { active, busy_permille }
}

#[test]
fn requests_become_windows() {
    let log = "\u{feff}workload,time,namespace,seconds\r\n\
               x,10.5,a,1\r\ny,10.5,a,0\r\nx,10.9,a,0.2\r\nx,13,a,0.25\r\nx,13.1,a,0.25\r\ny,14,a,9\r\n";
    let found = record(&[log]).unwrap();
    assert_eq!((found.windows(), found.window_ms()), (5, 1000));
    assert_eq!(of(&found, "x"), [window(2, 500), window(2, 500), window(0, 0), window(2, 350), window(0, 0)]);
    assert_eq!(of(&found, "y"), [window(1, 1), window(0, 0), window(0, 0), window(0, 0), window(1, 1000)]);
}

#[test]
fn tokens_take_the_time_that_the_model_says() {
    let log = "time,namespace,kind,workload,input_tokens,output_tokens\n\
               0,a,Deployment,x,5000,400\n0,a,StatefulSet,x,0,0\n3,a,Deployment,x,0,0\n";
    let found = record(&[log]).unwrap();
    let names: Vec<String> = found.series().iter().map(|s| s.name.to_string()).collect();
    assert_eq!(names, ["Deployment/a/x", "StatefulSet/a/x"]);
    assert_eq!(found.series()[0].windows[0], window(1, 500));
    assert_eq!(found.series()[1].windows[0], window(1, 100));
}

#[test]
fn logs_go_together_over_the_time_they_all_cover() {
    let (monday, tuesday) = ("1,a,x,1\n5,a,x,1\n", "8,a,x,1\n9,a,x,1\n");
    let other = "4,a,y,1\n20,a,y,1\n";
    let with = |lines: &str| format!("{OWN}{lines}");
    let found = record(&[&with(monday), &with(other), &with(tuesday)]).unwrap();
    assert_eq!(found.windows(), 6, "seconds 4 to 9");
    assert_eq!(of(&found, "x").iter().map(|w| w.active).collect::<Vec<_>>(), [0, 1, 0, 0, 1, 1]);
    let late = "40,a,z,1\n50,a,z,1\n";
    let error = record(&[&with(monday), &with(late)]).unwrap_err().to_string();
    assert!(error.starts_with("--requests: the log of a/x ends before that of a/z begins"), "{error}");
    let error = record(&[&with(tuesday), &with(monday)]).unwrap_err().to_string();
    assert!(
        error.starts_with("1.csv:2:1: a/x has later requests in an earlier log [wrong-order]"),
        "{error}"
    );
}

#[test]
fn logs_that_cannot_be_held_or_understood_are_refused() {
    let far = format!("{OWN}1,a,x,1\n9000000000,a,x,1\n");
    assert!(record(&[&far]).unwrap_err().to_string().contains("[too-many-windows]"));
    let azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,1,1\n";
    assert!(record(&[azure]).unwrap_err().to_string().starts_with("0.csv:2:1: the log does not say whose"));
    let mut none = Recorder::new(1000, None).unwrap();
    let error = none.log("a.csv", azure.as_bytes(), Some(("a", "x"))).unwrap_err();
    assert!(error.to_string().starts_with("a.csv:2:1: the log counts tokens, not time [no-service-time]"));
    assert!(Recorder::new(999, None).is_err() && Recorder::new(10_001, None).is_err());
    for wrong in ["", "1,2", "1,2,3,4", "-1,2,3", "NaN,0,0", "0,0,0", "1e3,0,0", "99999999,0,0", "0.0001,0,0"]
    {
        assert!(ServiceTime::parse(wrong).is_err(), "{wrong}");
    }
    assert_eq!(ServiceTime::parse("10, 30.5,4000").unwrap().micros(2, 3), 22_061);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Counted a second time, by asking each window which requests touch it.
    #[test]
    fn windows_are_what_a_slow_count_finds(requests in prop::collection::vec((0u64..20_000, 1u64..4_000), 1..40)) {
        let mut requests = requests;
        requests.sort_unstable();
        let mut log = OWN.to_owned();
        for (ms, long) in &requests {
            log += &format!("{}.{:03},a,x,{}.{:03}\n", ms / 1000, ms % 1000, long / 1000, long % 1000);
        }
        let found = record(&[&log]).unwrap();
        let first = requests[0].0 / 1000;
        for (k, window) in of(&found, "x").iter().enumerate() {
            let from = (first + k as u64) * 1000;
            // Times are whole milliseconds, so each millisecond is wholly at work or not.
            let at_work = |ms: u64| requests.iter().filter(|(t, d)| *t <= ms && ms < t + d).count();
            let busy = (from..from + 1000).filter(|ms| at_work(*ms) > 0).count();
            let peak = (from..from + 1000).map(at_work).max().unwrap_or(0);
            prop_assert_eq!(usize::from(window.active), peak);
            prop_assert_eq!(usize::from(window.busy_permille), busy);
        }
    }
}
