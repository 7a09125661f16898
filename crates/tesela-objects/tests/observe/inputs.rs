//! Inputs of every shape, and what is said of broken ones.

use serde_json::{Value, json};
use tesela_model::product::ProductTable;
use tesela_objects::observe::{ObserveError, Observer, Options};

use crate::build::{list, node, observe, owned, pod, read, with};

fn gpu_node(name: &str) -> Value {
    node(name, &[("gpu.product", "NVIDIA-L4"), ("gpu.count", "1")], &[("gpu", 1)])
}

fn fault(text: &[u8]) -> ObserveError {
    let mut observer = Observer::new(ProductTable::builtin(), Options::default());
    observer.read("f.json", text).err().unwrap_or_else(|| observer.finish().err().unwrap())
}

#[test]
fn lists_of_every_form_are_read() {
    let (n, p) = (gpu_node("n"), pod("ns", "p", "n", &[("gpu", 1)]));
    let whole = observe(&[n.clone(), p.clone()]);
    let bare = |object: &Value| {
        let mut object = object.clone();
        object.as_object_mut().unwrap().retain(|key, _| key != "kind" && key != "apiVersion");
        object
    };
    let typed = |kind: &str, item: &Value| json!({"kind": kind, "apiVersion": "v1", "metadata": {}, "items": [bare(item)]});
    let raw = [typed("NodeList", &n).to_string(), typed("PodList", &p).to_string()];
    // The API server's raw lists name the kind once; saved with sorted keys it comes behind the items.
    let late = [
        format!(r#"{{"items":[{}],"kind":"NodeList"}}"#, bare(&n)),
        format!(r#"{{"items":[{}],"kind":"PodList"}}"#, bare(&p)),
    ];
    let single = [n.to_string(), p.to_string()];
    let joined = format!("\u{feff}{n}\n{p}\n");
    let late_kind = |object: &Value, kind: &str| {
        let text = bare(object).to_string();
        format!(r#"{},"kind":"{kind}","apiVersion":"v1"}}"#, text.strip_suffix('}').unwrap())
    };
    let kind_last = [late_kind(&n, "Node"), late_kind(&p, "Pod")];
    let forms: [&[&str]; 5] = [
        &[&raw[0], &raw[1]],
        &[&late[0], &late[1]],
        &[&single[0], &single[1]],
        &[&joined],
        &[&kind_last[0], &kind_last[1]],
    ];
    for form in forms {
        assert_eq!(read(form, Options::default()).unwrap(), whole, "{form:?}");
    }
}

#[test]
fn other_kinds_are_skipped_by_group_too() {
    let longhorn = json!({"apiVersion": "longhorn.io/v1beta2", "kind": "Node", "metadata": {"name": "x"}, "spec": {"taints": 3}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"containers": "no"}});
    let read = observe(&[gpu_node("n"), longhorn, service]);
    assert_eq!((read.nodes, read.pods), (1, 0));
}

#[test]
fn a_later_snapshot_replaces_an_earlier_one() {
    let of = |name: &str, gpus: u64| owned(pod("ns", name, "n", &[("gpu", gpus)]), "StatefulSet", "s");
    let before = list(&[
        gpu_node("n"),
        gpu_node("old"),
        of("s-0", 1),
        of("s-1", 1),
        pod("kube-system", "d", "n", &[]),
    ]);
    let after = list(&[gpu_node("n"), of("s-0", 1), of("s-2", 1), pod("kube-system", "d", "n", &[])]);
    let read_both = read(&[&before, &after], Options::default()).unwrap();
    assert_eq!((read_both.nodes, read_both.pods), (1, 3));
    assert_eq!(read_both.demand.workloads[0].count, 2);
    assert!(read_both.findings.iter().any(|f| f.rule == "earlier-snapshot-replaced"));

    // Files that complete each other are not snapshots.
    let nodes = list(&[gpu_node("n")]);
    let (a, b) = (list(&[of("s-0", 1)]), list(&[pod("other", "p", "n", &[])]));
    let parts = read(&[&nodes, &a, &b], Options::default()).unwrap();
    assert_eq!((parts.nodes, parts.pods), (1, 2));
    assert!(!parts.findings.iter().any(|f| f.rule == "earlier-snapshot-replaced"));

    // A single object is news of that object alone.
    let done = with(of("s-0", 1), "/status/phase", json!("Succeeded")).to_string();
    let news = read(&[&before, &done], Options::default()).unwrap();
    assert_eq!(news.demand.workloads[0].count, 1);
}

#[test]
fn broken_json_is_told_with_its_place() {
    let text =
        format!("{{\n  \"items\": [\n{},\n{}", gpu_node("n"), &pod("ns", "p", "n", &[]).to_string()[..40]);
    let error = fault(text.as_bytes());
    let ObserveError::Truncated { line, last, .. } = &error else { panic!("{error}") };
    assert_eq!((*line, last.contains("Node/n")), (4, true), "{error}");

    let text = "{\"kind\": \"List\",\n \"items\": [{\"kind\": \"Pod\", }]}";
    let error = fault(text.as_bytes());
    assert!(matches!(&error, ObserveError::Json { line: 2, .. }), "{error}");

    let wrong = with(gpu_node("n"), "/status/capacity/cpu", json!("16GB"));
    let text = error_text(&list(&[wrong]));
    assert!(text.starts_with("f.json:1:") && text.contains("cpu: `16GB`"), "{text}");

    let negative = with(gpu_node("n"), "/status/allocatable/nvidia.com~1gpu", json!(-1));
    assert!(read(&[&list(&[negative])], Options::default()).is_ok(), "an unknown name is nobody's business");
    let text = list(&[gpu_node("n")]).replace("\"nvidia.com/gpu\":\"1\"", "\"nvidia.com/gpu\":\"-1\"");
    assert!(error_text(&text).contains("negative"));

    let text = list(&[gpu_node("n")]).replace("\"nvidia.com/gpu\":\"1\"", "\"nvidia.com/gpu\":\"2M\"");
    assert!(error_text(&text).contains("nvidia.com/gpu: `2M` is more than any node has"));

    let text = error_text(&list(&[gpu_node("n"), gpu_node("n")]));
    assert!(text.contains("Node `n` is in this list twice"), "{text}");
    let text = error_text(&list(&[gpu_node("n"), pod("a", "p", "n", &[]), pod("a", "p", "n", &[])]));
    assert!(text.contains("Pod `a/p` is in this list twice"), "{text}");
    let text = error_text(r#"{"items":[{"kind":"Pod","metadata":{}}]}"#);
    assert!(text.contains("Pod without metadata.name"), "{text}");
    assert!(error_text(r#"{"items": 3}"#).contains("a list of Kubernetes objects"));
    assert!(error_text("[1]").contains("a Kubernetes object"));
    let mut bytes = list(&[gpu_node("n")]).into_bytes();
    let at = bytes.windows(9).position(|w| w == b"NVIDIA-L4").unwrap();
    bytes[at] = 0xFF;
    assert!(matches!(fault(&bytes), ObserveError::Json { .. }));
}

fn error_text(text: &str) -> String {
    fault(text.as_bytes()).to_string()
}

#[test]
fn what_is_no_cluster_says_what_to_run() {
    let cases: [(&[u8], &str); 10] = [
        (b"", "empty"),
        (b" \n ", "empty"),
        (b"NAME   STATUS   ROLES    AGE   VERSION\nn1 Ready x 1d v1\n", "`-o json` is missing"),
        (b"apiVersion: v1\nkind: List\n", "-o yaml"),
        (b"\xFF\xFE{\0}\0", "UTF-16"),
        (b"No resources found\n", "a message of kubectl"),
        (br#"{"kind":"List","items":[]}"#, "no items"),
        (br#"{"kind":"List","items":null}"#, "no items"),
        (br#"{"items":[{"kind":"Deployment","metadata":{"name":"d"}}]}"#, "1 Deployment"),
        (
            br#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"nodes is forbidden"}"#,
            "nodes is forbidden",
        ),
    ];
    for (text, wanted) in cases {
        let error = fault(text).to_string();
        assert!(error.starts_with("f.json:") && error.contains(wanted), "{wanted}: {error}");
    }
}

#[test]
fn pods_need_nodes_unless_these_come_from_elsewhere() {
    let pods = list(&[pod("ns", "p", "n", &[("gpu", 1)])]);
    let error = fault(pods.as_bytes()).to_string();
    assert!(error.contains("1 pod") && error.contains("kubectl get nodes,pods -A -o json"), "{error}");
    let options = Options { nodes_elsewhere: true, ..Options::default() };
    let found = read(&[&pods], options).unwrap();
    assert_eq!((found.demand.workloads.len(), found.fleet.has_nodes), (1, false));
    let alone = observe(&[node("plain", &[], &[])]);
    assert!(alone.fleet.has_nodes && alone.fleet.nodes.is_empty());
}

#[test]
fn nothing_of_environment_or_annotations_is_held() {
    let secret =
        with(pod("ns", "p", "n", &[("gpu", 1)]), "/metadata/annotations", json!({"k": "do-not-show"}));
    let shown = format!("{:?}", observe(&[gpu_node("n"), secret]));
    assert!(!shown.contains("do-not-show") && !shown.contains("SECRET_TOKEN"));
}

/// A reader that fails says so and is not taken for a short input.
#[test]
fn a_failing_reader_is_no_end_of_input() {
    struct Fails(usize);
    impl std::io::Read for Fails {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if self.0 == 0 {
                return Err(std::io::Error::other("the disk is gone"));
            }
            self.0 -= 1;
            let text = b"{\"items\":[";
            buffer[..text.len()].copy_from_slice(text);
            Ok(text.len())
        }
    }
    for reads in [0, 1] {
        let mut observer = Observer::new(ProductTable::builtin(), Options::default());
        let error = observer.read("f.json", Fails(reads)).unwrap_err();
        assert!(matches!(&error, ObserveError::Io { message, .. } if message.contains("disk")), "{error}");
    }
}
