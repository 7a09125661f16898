//! What the table and the page both show of a plan, in the order in which both show it.

use std::collections::{BTreeMap, BTreeSet};

use tesela_model::plan::Assignment;

/// Assignments of one workload that differ in the node alone.
pub(crate) struct Group<'a> {
    pub(crate) first: &'a Assignment,
    pub(crate) pods: u64,
    pub(crate) staying: u64,
    pub(crate) nodes: BTreeSet<&'a str>,
    /// Whether some go to hardware that is not there yet.
    pub(crate) new_nodes: bool,
}

/// By way of sharing and reason, so that what is alike stands together and a reason is told once.
pub(crate) fn groups(assignments: &[Assignment]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut places = BTreeMap::new();
    for a in assignments {
        let key = (
            (&a.namespace, &a.kind, &a.workload, &a.tenant),
            (a.mode, a.replicas, &a.resource, a.gpus, &a.profile),
            (&a.request_today, &a.reason),
        );
        let place = *places.entry(key).or_insert_with(|| {
            groups.push(Group { first: a, pods: 0, staying: 0, nodes: BTreeSet::new(), new_nodes: false });
            groups.len() - 1
        });
        let group = &mut groups[place];
        group.pods += a.count;
        group.staying += a.staying;
        match &a.node {
            Some(node) => {
                group.nodes.insert(node);
            }
            None => group.new_nodes = true,
        }
    }
    groups.sort_by(|a, b| way_of(a.first).cmp(&way_of(b.first)));
    groups
}

/// What workloads must have in common to stand together.
pub(crate) fn way_of(a: &Assignment) -> impl Ord + '_ {
    (a.mode, a.replicas, &a.profile, &a.reason, &a.resource, a.gpus)
}
