//! Step 12: the GPU Operator must read the ConfigMaps of step 10.

use super::script::Script;
use super::setup::{Configs, DEFAULT_ENTRY};
use super::{Context, Step, Target};

/// Patches the ClusterPolicy where it names others.
pub(super) fn step(context: &Context<'_>, configs: &Configs) -> Option<Step> {
    if context.target != Target::GpuOperator || configs.mig.is_none() && configs.plugin.is_none() {
        return None;
    }
    let dir = "12-cluster-policy";
    let namespace = context.stack_namespace();
    let mut change = Script::new(1, namespace, "Makes the GPU Operator read the ConfigMaps");
    let mut verify = Script::new(1, namespace, "Checks which ConfigMaps the GPU Operator reads");
    let mut undo = Script::new(1, namespace, "Makes the GPU Operator read what it read before");
    for script in [&mut change, &mut verify, &mut undo] {
        script.run("POLICY=$(policy)");
    }
    let mut commands = Vec::new();
    let both = [(&configs.mig, "migManager", ""), (&configs.plugin, "devicePlugin", DEFAULT_ENTRY)];
    for (rendered, part, default) in both {
        let Some(map) = rendered else { continue };
        let default = if map.values.iter().any(|v| v == default) { default } else { "" };
        change.call("use_config \"$POLICY\"", [part, &map.name, default]);
        verify.set("WANTED", &map.name).run(&format!(
            "FOUND=$(kubectl get \"$POLICY\" -o 'jsonpath={{.spec.{part}.config.name}}')\n\
             [ \"$FOUND\" = \"$WANTED\" ] || stop \"spec.{part}.config.name is '$FOUND', expected '$WANTED'\""
        ));
        undo.call("leave_config \"$POLICY\"", [part, &map.name]);
        commands.push(format!(
            "`kubectl patch clusterpolicies.nvidia.com NAME --type=merge -p \
             '{{\"spec\":{{\"{part}\":{{\"config\":{{\"name\":\"{}\"}}}}}}}}'`",
            map.name
        ));
    }
    let notes = vec![
        format!("change.sh patches only what differs. By hand: {}.", commands.join(", ")),
        "The first config of the device plugin adds its config manager to the DaemonSet, and a new name restarts it: \
         the plugin of every GPU node of the cluster restarts once. Pods that run go on, new GPU pods wait for some \
         seconds. The MIG Manager restarts too and finds each node's label applied already."
            .to_owned(),
        "The strategy in ClusterPolicy (mig.strategy) stays: each entry of ours says its own, and the entry wins \
         (NVIDIA/gpu-operator#704)."
            .to_owned(),
    ];
    let files = vec![change.file(dir, "change.sh"), verify.file(dir, "verify.sh"), undo.file(dir, "undo.sh")];
    Some(Step {
        number: 12,
        title: "Let the GPU Operator read the ConfigMaps".to_owned(),
        hits: "No pod restarts; each node's device plugin restarts once when a name changes".to_owned(),
        notes,
        files,
        ..Step::at(dir)
    })
}
