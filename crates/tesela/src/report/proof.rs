//! The certificate in words that a person can check with a pencil.

use maud::{Markup, html};
use tesela_model::plan::{Certificate, ProductUse};

use super::Sheet;
use super::text::fill;

pub(super) fn section(sheet: &Sheet<'_>) -> Markup {
    let text = sheet.text;
    if sheet.plan.gpus.is_empty() {
        return html! {};
    }
    html! {
        section id="proof" {
            h3 { (text.proof) }
            p { (text.proof_lead) }
            ul { @for product in &sheet.plan.gpus { li { b { (product.product) } ": " (of_product(sheet, product)) } } }
        }
    }
}

fn of_product(sheet: &Sheet<'_>, of: &ProductUse) -> String {
    let text = sheet.text;
    if of.used == 0 {
        return text.proof_none_used.to_owned();
    }
    let kinds = [(of.exclusive, text.proof_whole), (of.shared, text.proof_turns), (of.mig, text.proof_cut)];
    let kinds: Vec<String> =
        kinds.iter().filter(|(n, _)| *n > 0).map(|(n, how)| fill(how, &[("n", &text.count(*n))])).collect();
    let mut parts = vec![fill(
        text.proof_used,
        &[("gpus", &text.many(of.used, &text.gpus)), ("kinds", &text.list(&kinds))],
    )];
    if let Some(certificate) = &of.certificate {
        parts.extend(prices(sheet, of, certificate));
    }
    let figures = [("used", text.count(of.used)), ("bound", text.count(of.lower_bound))];
    let figures: Vec<(&str, &str)> = figures.iter().map(|(k, v)| (*k, v.as_str())).collect();
    parts.push(if of.proven_optimal {
        fill(text.proof_optimal, &figures)
    } else {
        text.many_with(of.used.saturating_sub(of.lower_bound), &text.proof_open, &figures)
    });
    parts.join(" ")
}

/// `Price 1g.10gb at 1 and 2g.20gb at 2: no layout of one GPU costs more than 7. 100 × 1g.10gb and … cost 200; …`
fn prices(sheet: &Sheet<'_>, of: &ProductUse, certificate: &Certificate) -> Vec<String> {
    let text = sheet.text;
    let price = |name| u128::from(certificate.prices.get(name).copied().unwrap_or(0));
    let priced = of.mig_demand.keys().map(|name| {
        fill(text.proof_price, &[("profile", name.as_str()), ("price", &text.count(price(name)))])
    });
    let priced: Vec<String> = priced.collect();
    let scale = text.count(certificate.scale);
    let mut parts = vec![fill(text.proof_prices, &[("prices", &text.list(&priced)), ("scale", &scale)])];
    let total: u128 = of.mig_demand.iter().map(|(name, n)| price(name).saturating_mul(u128::from(*n))).sum();
    let bound = total.div_ceil(u128::from(certificate.scale.max(1)));
    let wanted: Vec<String> =
        of.mig_demand.iter().map(|(name, n)| format!("{} × {name}", text.count(*n))).collect();
    let bound_gpus = text.many(u64::try_from(bound).unwrap_or(u64::MAX), &text.gpus);
    parts.push(fill(
        text.proof_sum,
        &[
            ("wanted", &text.list(&wanted)),
            ("total", &text.count(total)),
            ("scale", &scale),
            ("bound", &text.count(bound)),
            ("gpus", &bound_gpus),
        ],
    ));
    parts
}
