//! Every word of the report that is not data, once for each language. A word that a language lacks is a missing field,
//! and the build fails.

/// A noun or phrase for one and for more; `{n}` is the number.
pub(super) type Many = [&'static str; 2];

/// The struct, and for tests a list of what is in it.
macro_rules! words {
    (one: $($one:ident),+; many: $($many:ident),+;) => {
        /// The words of one language. `{…}` are filled in.
        pub(super) struct Text {
            /// BCP 47 tag, for the `lang` attribute.
            pub(super) lang: &'static str,
            $(pub(super) $one: &'static str,)+
            $(pub(super) $many: Many,)+
            pub(super) months: [&'static str; 12],
            /// `{d}`, `{m}`, `{y}`.
            pub(super) date: &'static str,
            /// Parts thousands.
            pub(super) thousands: char,
            /// Parts decimals.
            pub(super) decimal: char,
        }

        #[cfg(test)]
        impl Text {
            /// Every text with its name.
            pub(super) fn entries(&self) -> Vec<(&'static str, &'static str)> {
                let mut all = vec![("date", self.date), $((stringify!($one), self.$one),)+];
                $(all.extend(self.$many.map(|text| (stringify!($many), text)));)+
                all
            }
        }
    };
}

words! {
    one:
        title, skip, made_by, of_what, complete, today_line, plan_line, no_change, way_line,
        way_restarts_only, no_restart, money_same, money_less, money_more, money_new, money_whole,
        less_than_one, and, more_names, figures, figures_caption, figure, today, plan, difference,
        gpus_held, nodes_held, nodes_kept, gpus_kept, pods_served, pods_waiting, pods_restarted, per_hour,
        aside, money, money_caption, way, gpus_word, nodes_word, the_plan, today_paid, all_exclusive,
        all_mig, all_time_sliced, not_possible, month, prices_from, prices_as_of, prices_undated,
        headroom_paid, no_money, give_prices, by_node, by_node_caption, node, product, unchanged,
        cannot_be_planned, no_gpus_seen, more_rows, guessed, legend, whole_held, whole_free, shared,
        shared_mps, instance_held, instance_free, instance_shared, stranded, unknown_gpu, changed,
        tile_shared, tile_held, tile_free, tile_mig, no_demand, windows, windows_lead, windows_none,
        windows_caption, gpu_changes, restarts, no_gpu_changes, restarts_none, moves, template, ends,
        kind_geometry, kind_mig_mode, kind_reset, kind_sharing, means_geometry, means_mig_mode,
        means_reset, means_sharing, to_whole, to_shares, to_mps, risks, risks_none, risk_operator,
        risk_reset, risk_loss, unmet, unmet_caption, burst, burst_caption, burst_instances, burst_for, burst_price, why, unknown, unknown_way, unknown_seats,
        assumptions_caption, assumption, taken, if_wrong, given, measured, estimated, assumed,
        nothing_assumed, sensitivity, sensitivity_caption, if_true, doubt_unknown_need, doubt_gpu_memory,
        doubt_duty, doubt_context, doubt_headroom, doubt_price, reasons, workloads, workloads_caption,
        workload, tenant, pods_word, stay, request, requests, where_to, new_hardware, way_whole,
        way_wholes, way_instance, way_turns, way_slices, way_clients, proof, proof_lead, proof_none_used,
        proof_used, proof_whole, proof_turns, proof_cut, proof_prices, proof_price, proof_sum,
        proof_optimal, headroom, quotas, quotas_caption, namespace, granted, zeros, zeros_all, quotas_note,
        quotas_dra, findings, findings_none, error, warning, info, fix, scheduler_says, kubelet_says,
        all_findings, foot;
    many:
        partial, waiting, nodes_set_free, gpus_change, pods_restart, requests_line, gpus, nodes, pods,
        new_node, alike, not_drawn, tile_stranded, risk_unmet, risk_stop, risk_alone, risk_errors, risk_template,
        unknown_pods, unknown_gpus, print_rows, rows_left_out, proof_open, likewise;
}

/// Puts values into the `{…}` of a text; what is named and not there stays away.
pub(super) fn fill(text: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let Some((name, behind)) = after.split_once('}') else {
            out.push('{');
            rest = after;
            continue;
        };
        out.push_str(values.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value));
        rest = behind;
    }
    out.push_str(rest);
    out
}
