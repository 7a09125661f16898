//! A certificate in words that a person can check with a pencil.

use std::collections::BTreeMap;

use tesela_model::plan::ProductUse;

use super::words::{count, is, list, many};

/// `Price 1g.10gb at 1 and 2g.20gb at 2: no layout of one GPU costs more than 7. 100 × 1g.10gb and … cost 200;
/// 200 / 7 rounded up is 29, so …`
pub(crate) fn prices(scale: u128, prices: &BTreeMap<String, u128>, demand: &BTreeMap<String, u64>) -> String {
    let price = |name: &String| prices.get(name).copied().unwrap_or(0);
    let priced =
        demand.keys().map(|name| format!("{name} at\u{a0}{}", count(price(name)))).collect::<Vec<_>>();
    let wanted =
        demand.iter().map(|(name, n)| format!("{}\u{a0}×\u{a0}{name}", count(*n))).collect::<Vec<_>>();
    let layouts = format!("Price {}: no layout of one GPU costs more than {}.", list(&priced), count(scale));
    let cost =
        |sum: u128, (name, n): (&String, &u64)| sum.checked_add(price(name).checked_mul(u128::from(*n))?);
    let Some(total) = demand.iter().try_fold(0u128, cost) else {
        return layouts;
    };
    let bound = total.div_ceil(scale.max(1));
    let verb = if demand.values().eq(&[1]) { "costs" } else { "cost" };
    format!(
        "{layouts} {} {verb} {}; {}\u{a0}/\u{a0}{} rounded up is {}, so fewer than {} cannot hold them.",
        list(&wanted),
        count(total),
        count(total),
        count(scale),
        count(bound),
        many(bound, "GPU"),
    )
}

/// What the bound says about the number of GPUs used.
pub(crate) fn verdict(used: u64, lower_bound: u64) -> String {
    if used == lower_bound {
        format!("Used: {}. Optimal, proven.", count(used))
    } else {
        format!(
            "Used: {}, at least {} {} needed; whether {} can be saved is not proven.",
            count(used),
            count(lower_bound),
            is(lower_bound),
            many(used.saturating_sub(lower_bound), "GPU"),
        )
    }
}

/// The proof for one product of a plan, the product apart.
pub(crate) fn of_product(of: &ProductUse) -> String {
    if of.used == 0 {
        return "no GPU is used.".to_owned();
    }
    let mut parts = Vec::new();
    let more = [(of.exclusive, "used whole"), (of.shared, "used in turns"), (of.mig, "cut into instances")];
    let kinds = more.iter().filter(|(n, _)| *n > 0).map(|(n, how)| format!("{} {how}", count(*n)));
    let kinds = kinds.collect::<Vec<_>>();
    parts.push(format!("{} ({}).", many(of.used, "GPU"), list(&kinds)));
    if let Some(certificate) = &of.certificate {
        let prices_of =
            certificate.prices.iter().map(|(name, p)| (name.to_string(), u128::from(*p))).collect();
        let demand = of.mig_demand.iter().map(|(name, n)| (name.to_string(), *n)).collect();
        parts.push(prices(u128::from(certificate.scale), &prices_of, &demand));
    }
    if of.used == of.lower_bound {
        let all = format!("In these ways of sharing at least {} hold the work.", many(of.lower_bound, "GPU"));
        parts.push(all);
    }
    parts.push(verdict(of.used, of.lower_bound));
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_can_be_checked_by_hand() {
        let prices_of = BTreeMap::from([("1g.10gb".to_owned(), 1), ("2g.20gb".to_owned(), 2)]);
        let demand = BTreeMap::from([("1g.10gb".to_owned(), 100), ("2g.20gb".to_owned(), 50)]);
        assert_eq!(
            prices(7, &prices_of, &demand).replace('\u{a0}', " "),
            "Price 1g.10gb at 1 and 2g.20gb at 2: no layout of one GPU costs more than 7. 100 × 1g.10gb and \
             50 × 2g.20gb cost 200; 200 / 7 rounded up is 29, so fewer than 29 GPUs cannot hold them."
        );
        assert_eq!(verdict(29, 29), "Used: 29. Optimal, proven.");
        assert!(verdict(30, 29).contains("not proven"));
    }
}
