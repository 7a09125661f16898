//! Replicas from joint activity on the Azure traces: chosen on the first 40 minutes, judged on the last 20.

#![expect(unreachable_pub, reason = "the module is also part of a benchmark")]

mod azure;

use azure::{Cell, Shift, busy, cells, duties, experiment, table, tally, tenants};

#[test]
fn tenants_are_as_the_file_says() {
    let experiment = experiment();
    assert_eq!(experiment.thinnings[0], 0);
    let services = tenants(&experiment, Shift::Parts, 0);
    assert_eq!(services.len(), 2);
    for service in &services {
        assert!(service.fit.len() >= 20 && service.fit.len() == service.test.len());
        for (fit, test) in service.fit.iter().zip(&service.test) {
            assert_eq!((fit.len(), test.len()), (2400, 1200));
        }
        let duty = |k: usize| service.fit[k].iter().filter(|w| w.active > 0).count() * 1000 / 2400;
        let (first, last) = (duty(0), duty(service.fit.len() - 1));
        assert!((295..=305).contains(&first) && (18..=22).contains(&last), "{first} {last}");
        // Both services are quieter in the test part: why counts chosen before are below the best in hindsight.
        let (fit, test) = duties(service);
        assert!(test < fit, "{fit} {test}");
    }
}

/// The limit holds in every cell. In which cells more than one replica was given away is part of the table.
#[test]
fn the_limit_holds_on_the_last_twenty_minutes() {
    let experiment = experiment();
    let found = cells(&experiment, Shift::Parts, 0);
    let busy = busy(&tenants(&experiment, Shift::Parts, 0));
    insta::assert_snapshot!(format!("{}\n{busy}\n{}", table(&found), tally(&found)));
    assert!(found.iter().all(Cell::held));
}

/// The same tenants where the test part is neither busier nor quieter on the whole: what the method itself gives away.
#[test]
fn without_drift_little_is_given_away() {
    let experiment = experiment();
    let found = cells(&experiment, Shift::Hour, 0);
    let busy = busy(&tenants(&experiment, Shift::Hour, 0));
    insta::assert_snapshot!(format!("{}\n{busy}\n{}", table(&found), tally(&found)));
}
