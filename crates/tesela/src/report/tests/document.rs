//! What every page must be, whatever is in the plan: headings in order, tables with captions, no script, nothing
//! loaded, names escaped.

use std::collections::BTreeSet;

use super::*;

/// The plan of an example with these inputs, as `tesela plan` makes it of kubectl's JSON alone.
pub(super) fn observed(path: &str) -> Plan {
    let options = Options { tenant_label: None, nodes_elsewhere: false };
    let table = ProductTable::builtin();
    let file = std::fs::read(repository(path)).unwrap();
    let mut observer = tesela_objects::observe::Observer::new(table, options);
    observer.read(path, file.as_slice()).unwrap();
    let seen = observer.finish().unwrap();
    let fleet = tesela_model::fleet::Fleet { headroom_nodes: 1, ..seen.fleet };
    let input = PlanInput {
        products: table,
        fleet: &fleet,
        demand: &seen.demand,
        findings: &seen.findings,
        prices: None,
        settings: Settings::default(),
    };
    tesela_plan::plan(&input)
}

fn plans() -> Vec<Plan> {
    ["mixed-fleet", "agents-company", "regulated"]
        .map(|name| observed(&format!("examples/{name}/cluster.json")))
        .into()
}

/// Every start tag of a page, with what is in it.
fn tags(page: &str) -> Vec<&str> {
    let starts = page.split('<').skip(1).filter(|part| part.starts_with(|c: char| c.is_ascii_alphabetic()));
    starts.filter_map(|part| part.split('>').next()).collect()
}

fn name(tag: &str) -> &str {
    tag.split(|c: char| c.is_whitespace() || c == '/').next().unwrap_or_default()
}

#[test]
fn nothing_runs_and_nothing_is_loaded() {
    for (plan, language) in plans().iter().flat_map(|plan| BOTH.map(|language| (plan, language))) {
        let page = html(plan, language);
        let lang = if language == Language::English { "en" } else { "es" };
        assert!(page.starts_with(&format!("<!DOCTYPE html><html lang=\"{lang}\">")));
        assert!(page.contains("content=\"default-src 'none'; style-src 'unsafe-inline';"));
        let names: BTreeSet<&str> = tags(&page).into_iter().map(name).collect();
        for forbidden in
            ["script", "link", "img", "iframe", "object", "embed", "form", "base", "image", "use"]
        {
            assert!(!names.contains(forbidden), "{forbidden}");
        }
        for tag in tags(&page) {
            for attribute in
                [" src=", " onclick", " onload", " style=", " srcset=", " href=\"http", " xlink:"]
            {
                assert!(!tag.contains(attribute), "{tag}");
            }
        }
        let style = page.split("<style>").nth(1).unwrap().split("</style>").next().unwrap();
        assert!(!style.contains("@import"));
        assert!(style.split("url(").skip(1).all(|rest| rest.starts_with('#')));
    }
}

#[test]
fn a_reader_of_screens_finds_its_way() {
    for (plan, language) in plans().iter().flat_map(|plan| BOTH.map(|language| (plan, language))) {
        let page = html(plan, language);
        let mut level = 0;
        for tag in tags(&page) {
            let heading = name(tag).strip_prefix('h').and_then(|n| n.parse::<u32>().ok());
            if let Some(next) = heading {
                assert!(next <= level + 1, "h{next} after h{level}");
                level = next;
            }
            match name(tag) {
                "th" => assert!(tag.contains("scope="), "{tag}"),
                "svg" => assert!(tag.contains("aria-hidden=\"true\""), "{tag}"),
                _ if tag.contains("role=\"img\"") || tag.contains("role=\"region\"") => {
                    let label = tag.split("aria-label=\"").nth(1).unwrap();
                    assert!(!label.starts_with('"'), "{tag}");
                }
                _ => {}
            }
        }
        for landmark in ["header", "main", "footer", "h1"] {
            assert_eq!(tags(&page).into_iter().filter(|tag| name(tag) == landmark).count(), 1, "{landmark}");
        }
        let count = |wanted: &str| tags(&page).into_iter().filter(|tag| name(tag) == wanted).count();
        assert!(count("table") >= 5);
        assert_eq!(count("table"), count("caption"));
        let ids: Vec<&str> =
            tags(&page).into_iter().filter_map(|tag| tag.split(" id=\"").nth(1)?.split('"').next()).collect();
        assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len(), "{ids:?}");
    }
}

/// Every text of a plan turned into something that would end a tag, an attribute or a style.
#[test]
fn names_cannot_break_out_of_the_page() {
    const EVIL: &str = "\"'><script>alert(1)</script></style><img src=x onerror=alert(1)>&amp;";
    fn spoil(value: &mut serde_json::Value, key: &str) {
        const KEPT: [&str; 13] = [
            "apiVersion",
            "kind",
            "status",
            "mode",
            "mode_today",
            "change",
            "origin",
            "starts",
            "severity",
            "cause",
            "profile",
            "resource",
            "request_today",
        ];
        match value {
            serde_json::Value::String(text) if !KEPT.contains(&key) && !key.starts_with("mig_strategy") => {
                text.push_str(EVIL);
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(|item| spoil(item, key)),
            serde_json::Value::Object(fields) => {
                let of_doubt = fields.contains_key("pods_waiting") && fields.contains_key("change");
                for (key, value) in fields.iter_mut().filter(|(key, _)| !(of_doubt && *key == "subject")) {
                    spoil(value, key);
                }
            }
            _ => {}
        }
    }
    for plan in plans() {
        let before = BOTH.map(|language| tags(&html(&plan, language)).len());
        let mut value = serde_json::to_value(&plan).unwrap();
        spoil(&mut value, "");
        let plan: Plan = serde_json::from_value(value).unwrap();
        for (language, before) in BOTH.into_iter().zip(before) {
            let page = html(&plan, language);
            assert!(page.contains("&lt;script&gt;alert(1)"));
            for evil in ["<script", "<img", "onerror=alert(1)>&amp;\""] {
                assert!(!page.contains(evil), "{evil}");
            }
            assert_eq!(page.matches("</style>").count(), 1);
            // Sentences that no longer fit a form are marked as English; nothing else may be new.
            let spans = page.matches("<span lang=\"en\">").count();
            assert!(tags(&page).len() <= before + spans, "{language:?}");
        }
    }
}

/// Whoever follows the plan restarts only pods that the page names.
#[test]
fn every_restarting_pod_is_named() {
    let plan = observed("examples/regulated/cluster.json");
    let mut plan = plan;
    let pod = |n: u64, cause| tesela_model::plan::Restart {
        node: format!("node-{}", n % 60),
        namespace: "team".into(),
        name: format!("pod-{n}"),
        kind: "Job".into(),
        workload: "work".into(),
        cause,
    };
    let moves = (0..500).map(|n| pod(n, tesela_model::plan::RestartCause::Moves));
    let replaced = (500..900).map(|n| pod(n, tesela_model::plan::RestartCause::Template));
    plan.restarting = moves.chain(replaced).collect();
    for language in BOTH {
        let page = html(&plan, language);
        let named = (0..900).filter(|n| {
            let name = format!("team/pod-{n}");
            page.contains(&format!("{name},")) || page.contains(&format!("{name}<"))
        });
        assert_eq!(named.count(), 900);
    }
}

#[test]
fn without_prices_no_money_is_made_up() {
    let plan = observed("examples/mixed-fleet/cluster.json");
    let page = html(&plan, Language::Spanish);
    assert!(page.contains("No se puede decir nada del dinero: no se dieron precios"));
    assert!(page.contains("--price Tesla-T4=…/h --price a100-40gb=…/h"));
    assert!(!page.contains("EUR"));
}
