//! Whole renderings, as a person gets them.
#![expect(clippy::unwrap_used, reason = "clippy knows tests by their attribute, not their helpers")]

#[path = "render/cluster.rs"]
mod cluster;
#[path = "render/fleet.rs"]
mod fleet;
#[path = "render/replay.rs"]
mod replay;
#[path = "render/scripts.rs"]
mod scripts;
#[path = "render/structure.rs"]
mod structure;

use tesela_objects::render::{Existing, RenderError, Rendering, Target, render};

/// All files one after the other, each under its path.
fn whole(rendering: &Rendering) -> String {
    let mut text = String::new();
    for file in rendering.files() {
        if file.path != "lib.sh" {
            let mark = if file.executable { " (program)" } else { "" };
            text.push_str(&format!("=== {}{mark}\n{}", file.path, file.text));
        }
    }
    text
}

const PLUGIN: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: plugin-configs, namespace: nvidia}
data:
  plain: |
    version: v1
    flags:
      migStrategy: none
      plugin: {passDeviceSpecs: true}   # by hand
";

const MIG: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: mig-configs, namespace: nvidia}
data:
  config.yaml: |
    version: v1
    mig-configs:
      # the default
      all-disabled:
        - {devices: all, mig-enabled: false}
      all-1g.10gb:
        - devices: all
          mig-enabled: true
          mig-devices: {1g.10gb: 7}
";

fn existing() -> Existing {
    let mut existing = Existing::none();
    existing.read("plugin.yaml", PLUGIN.as_bytes()).unwrap();
    existing.read("mig.yaml", MIG.as_bytes()).unwrap();
    existing
}

#[test]
fn busy_fleet_for_the_gpu_operator() {
    insta::assert_snapshot!(whole(&render(&fleet::busy(), Target::GpuOperator, &existing()).unwrap()));
}

#[test]
fn busy_fleet_native() {
    insta::assert_snapshot!(whole(&render(&fleet::busy(), Target::Native, &Existing::none()).unwrap()));
}

#[test]
fn a_tenants_own_node() {
    insta::assert_snapshot!(whole(
        &render(&fleet::fenced(), Target::GpuOperator, &Existing::none()).unwrap()
    ));
}

/// `kubectl diff` of a ConfigMap that was there shows lines that come, and no line that goes or changes.
#[test]
fn existing_entries_are_kept_and_nothing_but_ours_is_added() {
    let files = render(&fleet::busy(), Target::GpuOperator, &existing()).unwrap().files();
    for (file, given) in [("device-plugin", PLUGIN), ("mig-parted", MIG)] {
        let text = |path: &str| {
            let file = files.iter().find(|f| f.path == path).unwrap();
            let mut trees = tesela_formats::tree::read_documents(path, file.text.as_bytes()).unwrap();
            trees.remove(0).root
        };
        let given = tesela_formats::tree::read_documents(file, given.as_bytes()).unwrap().remove(0).root;
        let now = text(&format!("10-configmaps/{file}.yaml"));
        let before = text(&format!("10-configmaps/before/{file}.yaml"));
        for root in [&now, &before] {
            let metadata = root.get("metadata").unwrap().as_mapping().unwrap();
            let keys: Vec<_> = metadata.entries.iter().map(|e| e.key.text.to_string()).collect();
            assert_eq!(keys, ["name", "namespace"], "no label or annotation of theirs is touched");
        }
        let data = |root: &tesela_formats::tree::Node| -> Vec<(String, String)> {
            let data = root.get("data").unwrap().as_mapping().unwrap();
            let entry = |e: &tesela_formats::tree::Entry| {
                (e.key.text.to_string(), e.value.as_scalar().unwrap().text.to_string())
            };
            data.entries.iter().map(entry).collect()
        };
        assert_eq!(data(&before), data(&given), "undo puts back what was given");
        let now: std::collections::BTreeMap<_, _> = data(&now).into_iter().collect();
        assert_ne!(now.len() + now.values().map(String::len).sum::<usize>(), 0);
        for (key, was) in data(&given) {
            let mut lines = now[&key].lines();
            assert!(was.lines().all(|line| lines.any(|l| l == line)), "{key}: a line went or changed");
        }
    }
}

#[test]
fn hostile_names_never_reach_a_file() {
    let refused = |edit: fn(&mut tesela_model::plan::Plan)| {
        let mut plan = fleet::busy();
        edit(&mut plan);
        render(&plan, Target::GpuOperator, &Existing::none()).unwrap_err().to_string()
    };
    for (message, key) in [
        (refused(|p| p.nodes[0].name = Some("a;reboot".into())), "nodes.name"),
        (refused(|p| p.nodes[0].mig_config_today = Some("$(reboot)".into())), "mig_config_today"),
        (refused(|p| p.pools[0].name = "../../etc".into()), "pools.name"),
        (refused(|p| p.pools[0].tenant = Some("a b".into())), "pools.tenant"),
        (refused(|p| p.assignments[0].namespace = "a/../b".into()), "assignments.namespace"),
        (refused(|p| p.assignments[0].workload = "x'y".into()), "assignments.workload"),
        (refused(|p| p.assignments[0].kind = "Deploy ment".into()), "assignments.kind"),
        (refused(|p| p.quotas[0].resource = "requests.nvidia.com/gpu\": 1".into()), "quotas.resource"),
        (refused(|p| p.changes[0].disturbed_pods[0].name = "-rf".into()), "disturbed_pods.name"),
        (refused(|p| p.unmet[0].workload = "A".into()), "unmet.workload"),
        (refused(|p| p.restarting[0].name = "a b".into()), "restarting.name"),
        (refused(|p| p.restarting[0].node = "$(id)".into()), "restarting.node"),
    ] {
        assert!(message.contains(key), "{message}");
    }
}

#[test]
fn contradictions_are_refused() {
    let refused = |edit: fn(&mut tesela_model::plan::Plan)| {
        let mut plan = fleet::busy();
        edit(&mut plan);
        render(&plan, Target::Native, &Existing::none()).unwrap_err()
    };
    assert!(matches!(refused(|p| p.changes[0].node = "gone".into()), RenderError::Contradiction { .. }));
    assert!(matches!(refused(|p| p.quotas.push(p.quotas[0].clone())), RenderError::Contradiction { .. }));
    assert!(matches!(refused(|p| p.nodes[2].gpus[0].replicas = None), RenderError::Contradiction { .. }));
    assert!(matches!(refused(|p| p.nodes[2].gpus[0].replicas = Some(2)), RenderError::NotExpressible { .. }));
    assert!(matches!(
        refused(|p| p.api_version = "v2".into()),
        RenderError::Header { key: "apiVersion", .. }
    ));
}

#[test]
fn a_plan_without_changes_has_no_node_step() {
    let mut plan = fleet::empty();
    plan.nodes = vec![fleet::busy().nodes[3].clone()];
    let rendering = render(&plan, Target::GpuOperator, &Existing::none()).unwrap();
    assert!(rendering.steps.is_empty(), "{:?}", rendering.steps);
}

/// The name under which the plugin's entry for time slices stands in a rendering.
fn sliced_entry(plan: &tesela_model::plan::Plan) -> String {
    let files = render(plan, Target::GpuOperator, &Existing::none()).unwrap().files();
    let map = files.into_iter().find(|f| f.path == "10-configmaps/device-plugin.yaml").unwrap();
    let mut names = map.text.lines().filter_map(|l| l.trim().strip_suffix(": |"));
    names.find(|n| n.starts_with("tesela-timesliced")).unwrap().to_owned()
}

#[test]
fn an_entry_of_our_name_with_other_content_is_a_clash() {
    let plan = fleet::fenced();
    let entry = sliced_entry(&plan);
    let render_with = |content: &str| {
        let mut existing = Existing::none();
        let map = format!("kind: ConfigMap\nmetadata: {{name: p}}\ndata: {{{entry}: '{content}'}}\n");
        existing.read("p", map.as_bytes()).unwrap();
        render(&plan, Target::GpuOperator, &existing)
    };
    let error = render_with("version: v1").unwrap_err();
    assert!(matches!(error, RenderError::Clash { entry: ref e, .. } if *e == entry), "{error}");
    let same = "{version: v1, flags: {migStrategy: none}, sharing: {timeSlicing: {renameByDefault: true, \
                failRequestsGreaterThanOne: true, resources: [{name: nvidia.com/gpu, replicas: 2}]}}}";
    let kept = render_with(same).unwrap().files();
    let map = kept.iter().find(|f| f.path == "10-configmaps/device-plugin.yaml").unwrap();
    assert!(map.text.contains("{version: v1, flags"), "{}", map.text);
}
