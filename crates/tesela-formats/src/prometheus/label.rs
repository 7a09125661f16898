//! Names of metrics and labels in each vintage of the exporter.

use tesela_model::demand::PodRef;
use tesela_model::usage::{Metric, Subject};

/// Labels that place a series, for messages. Pods: of the exporter, the same where Prometheus renamed them because
/// its own target labels won, and before dcgm-exporter 3. GPUs after those.
pub(super) const LOOKED_FOR: [&str; 9] = [
    "pod",
    "namespace",
    "exported_pod",
    "exported_namespace",
    "pod_name",
    "pod_namespace",
    "UUID",
    "gpu",
    "Hostname",
];

/// What a value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Mebibytes,
    Bytes,
    Percent,
    Ratio,
}

/// The metric of a name, with its unit. Three vintages: up to 4.8, the 1.x names in small letters, and 4.9, which
/// renamed and took bytes and ratios.
pub(super) fn metric(name: &str) -> Option<(Metric, Unit)> {
    use Metric::{
        DramActive, EngineActive, GpuUtil, MemCopyUtil, MemoryFree, MemoryTotal, MemoryUsed, SmActive,
    };
    if let Some(metric) = Metric::ALL.into_iter().find(|m| m.name() == name) {
        let unit = match metric {
            MemoryUsed | MemoryFree | MemoryTotal => Unit::Mebibytes,
            GpuUtil | MemCopyUtil => Unit::Percent,
            EngineActive | SmActive | DramActive => Unit::Ratio,
        };
        return Some((metric, unit));
    }
    Some(match name {
        "dcgm_fb_used" => (MemoryUsed, Unit::Mebibytes),
        "dcgm_fb_free" => (MemoryFree, Unit::Mebibytes),
        "dcgm_gpu_utilization" => (GpuUtil, Unit::Percent),
        "dcgm_mem_copy_utilization" => (MemCopyUtil, Unit::Percent),
        "dcgm_fi_prof_gr_engine_active" => (EngineActive, Unit::Ratio),
        "dcgm_fi_prof_sm_active" => (SmActive, Unit::Ratio),
        "dcgm_fi_prof_dram_active" => (DramActive, Unit::Ratio),
        _ => {
            // The middle part of these names differs between lists, so only the end is compared.
            let ends = |end: &str| name.starts_with("DCGM_FI_") && name.ends_with(end);
            match () {
                () if ends("_FB_USED_BYTES") => (MemoryUsed, Unit::Bytes),
                () if ends("_FB_FREE_BYTES") => (MemoryFree, Unit::Bytes),
                () if ends("_FB_CAPACITY_BYTES") => (MemoryTotal, Unit::Bytes),
                () if ends("_GR_ENGINE_UTIL_RATIO") => (EngineActive, Unit::Ratio),
                () if ends("_GPU_UTIL_RATIO") => (GpuUtil, Unit::Ratio),
                () if ends("_SM_UTIL_RATIO") => (SmActive, Unit::Ratio),
                () if ends("_DRAM_UTIL_RATIO") => (DramActive, Unit::Ratio),
                () if ends("_MEMORY_UTIL_RATIO") => (MemCopyUtil, Unit::Ratio),
                () => return None,
            }
        }
    })
}

/// The one metric that an expression speaks of; `None` where it speaks of none or of several.
pub(super) fn metric_in(expression: &str) -> Option<String> {
    let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | ':')));
    let mut found = words.filter(|word| metric(word).is_some());
    let first = found.next()?;
    found.all(|other| other == first).then(|| first.to_owned())
}

/// A value in the model's unit; `None` where the metric cannot have it. Shares slightly above the whole are seen
/// with MIG (NVIDIA/DCGM#152) and count as the whole.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked before")]
pub(super) fn scaled(value: f64, unit: Unit) -> Option<u64> {
    /// 16 TiB: no device has it, and DCGM's blank values are above.
    const MOST_KIB: f64 = 17_179_869_184.0;
    let kib = |kib: f64| (0.0..=MOST_KIB).contains(&kib).then(|| kib.round() as u64);
    let share = |share: f64| (0.0..=1.1).contains(&share).then(|| (share.min(1.0) * 1e6).round() as u64);
    match unit {
        Unit::Mebibytes => kib(value * 1024.0),
        Unit::Bytes => kib(value / 1024.0),
        Unit::Percent => share(value / 100.0),
        Unit::Ratio => share(value),
    }
}

/// The labels of one series that are read.
#[derive(Default)]
pub(super) struct Labels {
    /// `__name__`, else a label that a query put the name into.
    pub(super) name: Option<String>,
    placed: Option<String>,
    pods: [Pod; 3],
    uuid: Option<String>,
    gpu: Option<String>,
    node: Option<String>,
    host: Option<String>,
    instance: Option<String>,
    cluster: Option<String>,
}

#[derive(Default)]
struct Pod {
    name: Option<String>,
    namespace: Option<String>,
}

impl Labels {
    /// Where the value of a label goes; `None` = it is not read.
    pub(super) fn slot(&mut self, label: &str) -> Option<&mut Option<String>> {
        let [exported, plain, old] = &mut self.pods;
        Some(match label {
            "__name__" => &mut self.name,
            "metric" | "metric_name" => &mut self.placed,
            "exported_pod" => &mut exported.name,
            "exported_namespace" => &mut exported.namespace,
            "pod" => &mut plain.name,
            "namespace" => &mut plain.namespace,
            "pod_name" => &mut old.name,
            "pod_namespace" => &mut old.namespace,
            "UUID" | "uuid" | "gpu_uuid" => &mut self.uuid,
            "gpu" => &mut self.gpu,
            "node" | "kubernetes_node" => &mut self.node,
            "Hostname" | "hostname" => &mut self.host,
            "GPU_I_ID" => &mut self.instance,
            "cluster" => &mut self.cluster,
            _ => return None,
        })
    }

    /// The metric's name as the labels give it.
    pub(super) fn metric(&mut self) -> Option<String> {
        let filled = |text: Option<String>| text.filter(|t| !t.is_empty());
        filled(self.name.take()).or_else(|| filled(self.placed.take()))
    }

    /// What the series is about. Where Prometheus kept its target's labels, `pod` is the exporter's own pod, and the
    /// pod with the GPU is `exported_pod`. The node that Prometheus knows of its target goes before the exporter's
    /// `Hostname`, which is its own pod's name where nobody told it the node's.
    pub(super) fn subject(self) -> Subject {
        let filled = |text: Option<String>| text.filter(|t| !t.is_empty());
        let pod =
            |Pod { name, namespace }| Some(PodRef { namespace: filled(namespace)?, name: filled(name)? });
        let instance = filled(self.instance);
        Subject {
            pod: self.pods.into_iter().find_map(pod),
            node: filled(self.node).or_else(|| filled(self.host)),
            gpu: filled(self.uuid).or_else(|| filled(self.gpu)),
            instance,
            cluster: filled(self.cluster),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(labels: &[(&str, &str)]) -> Subject {
        let mut read = Labels::default();
        for (name, value) in labels {
            if let Some(slot) = read.slot(name) {
                *slot = Some((*value).to_owned());
            }
        }
        read.subject()
    }

    #[test]
    fn each_vintage_names_its_pod() {
        let wanted = Some(PodRef { namespace: "n".into(), name: "p".into() });
        for labels in [
            &[("pod", "p"), ("namespace", "n")][..],
            &[("pod_name", "p"), ("pod_namespace", "n")],
            &[("pod", "exporter"), ("namespace", "m"), ("exported_pod", "p"), ("exported_namespace", "n")],
            &[("exported_pod", ""), ("exported_namespace", ""), ("pod", "p"), ("namespace", "n")],
        ] {
            assert_eq!(subject(labels).pod, wanted, "{labels:?}");
        }
        assert_eq!(subject(&[("pod", "p")]).pod, None, "a pod without its namespace is any pod");
        let gpu = subject(&[("UUID", "GPU-1"), ("gpu", "0"), ("hostname", "h"), ("GPU_I_ID", "3")]);
        assert_eq!((gpu.gpu.as_deref(), gpu.node.as_deref()), (Some("GPU-1"), Some("h")));
        assert_eq!(gpu.instance.as_deref(), Some("3"));
        for labels in
            [[("Hostname", "dcgm-exporter-x"), ("node", "h")], [("kubernetes_node", "h"), ("Hostname", "x")]]
        {
            assert_eq!(subject(&labels).node.as_deref(), Some("h"), "{labels:?}");
        }
        assert_eq!(subject(&[("cluster", "east")]).cluster.as_deref(), Some("east"));
    }

    #[test]
    fn each_vintage_has_its_units() {
        let value = |name: &str, value: f64| scaled(value, metric(name).unwrap().1);
        assert_eq!(value("DCGM_FI_DEV_FB_USED", 2.0), Some(2048));
        assert_eq!(value("DCGM_FI_DEV_FB_USED_BYTES", 2_097_152.0), Some(2048));
        assert_eq!(value("dcgm_gpu_utilization", 50.0), Some(500_000));
        assert_eq!(value("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.5), Some(500_000));
        assert_eq!(value("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", 1.04), Some(1_000_000));
        assert_eq!(value("DCGM_FI_PROF_SM_ACTIVE", 1.2), None);
        assert_eq!(value("DCGM_FI_DEV_FB_USED", 9.223_372_036_854_776e18), None, "DCGM's blank");
        assert_eq!(value("DCGM_FI_DEV_FB_USED", -1.0), None);
        assert!(metric("DCGM_FI_DEV_SM_CLOCK").is_none());
    }

    #[test]
    fn an_expression_names_its_metric() {
        let found = |text| metric_in(text);
        assert_eq!(
            found("max_over_time(DCGM_FI_DEV_FB_USED{pod!=\"\"}[5m])").unwrap(),
            "DCGM_FI_DEV_FB_USED"
        );
        assert_eq!(found("DCGM_FI_DEV_FB_USED / DCGM_FI_DEV_FB_FREE"), None);
        assert_eq!(found("up"), None);
    }
}
