//! Step 10: the ConfigMaps. Nothing reads them yet, unless they were there.

use super::error::RenderError;
use super::manifest::{ConfigMap, yaml};
use super::script::Script;
use super::setup::{Configs, Rendered};
use super::{Context, File, Step};

/// The scripts and files of the step.
struct Parts {
    change: Script,
    verify: Script,
    undo: Script,
    files: Vec<File>,
    notes: Vec<String>,
}

const DIR: &str = "10-configmaps";

/// One step for both ConfigMaps; `None` where no node needs them.
pub(super) fn step(context: &Context<'_>, configs: &Configs) -> Result<Option<Step>, RenderError> {
    if configs.mig.is_none() && configs.plugin.is_none() {
        return Ok(None);
    }
    let namespace = context.stack_namespace();
    let mut parts = Parts {
        change: Script::new(1, namespace, "Applies the ConfigMaps"),
        verify: Script::new(1, namespace, "Compares the ConfigMaps with the cluster"),
        undo: Script::new(1, namespace, "Takes the ConfigMaps back"),
        files: Vec::new(),
        notes: Vec::new(),
    };
    let both = [
        (&configs.mig, "mig-parted", "nvidia.com/mig.config"),
        (&configs.plugin, "device-plugin", "nvidia.com/device-plugin.config"),
    ];
    for (rendered, stem, key) in both {
        if let Some(map) = rendered {
            parts.add(map, stem, key)?;
        }
    }
    let Parts { change, mut verify, undo, mut files, mut notes } = parts;
    notes.push(
        "A changed content always has a new name, because NVIDIA's programs act on a change of the node label's value \
         and not on an edit behind it."
            .to_owned(),
    );
    notes.push("Undo only after the steps behind this one have been undone: nodes must not name an entry that is gone.".to_owned());
    verify.run("exit \"$DIFFERENT\"");
    files.extend([change.file(DIR, "change.sh"), verify.file(DIR, "verify.sh"), undo.file(DIR, "undo.sh")]);
    Ok(Some(Step {
        number: 10,
        title: "ConfigMaps with the new layouts and ways of sharing".to_owned(),
        hits: "No pod restarts".to_owned(),
        notes,
        files,
        ..Step::at(DIR)
    }))
}

impl Parts {
    /// One ConfigMap. `key`: the label of nodes whose values are its entries.
    fn add(&mut self, map: &Rendered, stem: &str, key: &str) -> Result<(), RenderError> {
        let file = format!("{stem}.yaml");
        let object = ConfigMap::new(&map.namespace, &map.name, map.data.clone(), map.before.is_none());
        self.manifest(&file, yaml(&map.name, &object)?);
        self.change.list("KNOWN", &map.values).run(&format!("check_known {key} \"$KNOWN\""));
        // A document in one key can only be changed as a whole, so its field must become ours.
        let force: &[&str] = if map.before.is_some() { &["--force-conflicts"] } else { &[] };
        self.change.call("apply", std::iter::once(file.as_str()).chain(force.iter().copied()));
        self.verify.call("check_same", [file.as_str()]);
        let at = format!("ConfigMap {}/{}", map.namespace, map.name);
        if let Some(before) = &map.before {
            let object = ConfigMap::new(&map.namespace, &map.name, before.clone(), false);
            let file = format!("before/{stem}.yaml");
            self.manifest(&file, yaml(&map.name, &object)?);
            self.undo.call("apply", [file.as_str(), "--force-conflicts"]);
            self.notes.push(format!(
                "{at} was given: its entries stay to the byte, ours are added. It must not have changed since; \
                 look at the difference with ./verify.sh first. Where Helm or GitOps keeps it, add our entries there \
                 as well, or they go with the next sync."
            ));
        } else {
            self.undo.call(
                "change kubectl delete configmap",
                [map.name.as_str(), "-n", &map.namespace, "--ignore-not-found"],
            );
            self.notes.push(format!("{at} is Tesela's own."));
        }
        Ok(())
    }

    fn manifest(&mut self, file: &str, text: String) {
        self.files.push(File { path: format!("{DIR}/{file}"), text, executable: false });
    }
}
