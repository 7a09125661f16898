//! Step 50: pools that belong to one tenant are fenced by a taint.

use super::script::Script;
use super::{Context, Step, Target};

/// The fences, after the requests: by then the tenant's own pods tolerate the taint.
///
/// Pools without a tenant get no taint. Their resources have names of their own and quotas say who may ask; a
/// taint would need a toleration in each of their workloads, and so a restart of pods that the plan leaves alone.
pub(super) fn fences(context: &Context<'_>) -> Option<Step> {
    let mut fenced = Vec::new();
    for pool in &context.plan.pools {
        let Some(tenant) = &pool.tenant else { continue };
        for node in &pool.nodes {
            fenced.push((node.as_str(), tenant.as_str()));
        }
    }
    fenced.sort_unstable();
    fenced.dedup();
    if fenced.is_empty() {
        return None;
    }
    let dir = "50-tenant-fences";
    let mut change = Script::new(1, context.stack_namespace(), "Taints the nodes that belong to one tenant");
    let mut verify = Script::new(1, context.stack_namespace(), "Checks the taints of tenants");
    let mut undo = Script::new(1, context.stack_namespace(), "Removes the taints of tenants");
    if context.target == Target::GpuOperator {
        change.run("check_operands_tolerate tesela.dev/tenant");
    }
    for (node, tenant) in &fenced {
        let taint = format!("tesela.dev/tenant={tenant}:NoSchedule");
        change.call("change kubectl taint node", [node, taint.as_str(), "--overwrite"]);
        verify.call("check_taint", [node, "tesela.dev/tenant", tenant]);
        undo.call("remove_taint", [node, "tesela.dev/tenant"]);
    }
    let mut notes = vec![
        "A node in two pools gets the taint for all its GPUs. NoSchedule evicts nobody: pods of others that run there \
         run on until they end."
            .to_owned(),
    ];
    if context.target == Target::GpuOperator {
        notes.push(
            "The GPU Operator's own pods must tolerate the taint, or they cannot come back on these nodes: change.sh \
             stops unless ClusterPolicy spec.daemonsets.tolerations has `{key: tesela.dev/tenant, operator: Exists}`. \
             It does not add it, because that edit renews every DaemonSet of the operator, the driver's too, and a \
             driver upgrade policy may then drain nodes: do it in a window of your own."
                .to_owned(),
        );
    }
    let files = vec![change.file(dir, "change.sh"), verify.file(dir, "verify.sh"), undo.file(dir, "undo.sh")];
    Some(Step {
        number: 50,
        title: "Fence the nodes that belong to one tenant".to_owned(),
        hits: "No pod restarts".to_owned(),
        notes,
        files,
        ..Step::at(dir)
    })
}
