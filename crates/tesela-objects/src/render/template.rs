//! Go templates that turn a workload, as the cluster has it now, into the JSON patch for it.
//!
//! The plan knows what a workload's pods shall request, not the names of their containers. So the patch is made
//! from the live object: `kubectl get … -o go-template-file=…` prints it, `kubectl patch --type=json` applies it.
//! Only containers that request the former resource are touched; each operation has a `test` before it, so a
//! workload that changed in between is refused and not broken.

use std::fmt::Write as _;

/// What a template does to the pod template of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    /// Where the pod spec is: `/spec/template/spec`.
    pub(super) pod_spec: &'static str,
    /// Resources that are replaced.
    pub(super) from: Vec<String>,
    /// By this one.
    pub(super) to: String,
    /// One device in one container: whatever amount stood there becomes 1. Else each container keeps its amount.
    pub(super) one: bool,
    /// `tesela.dev/pool` that the pods must select.
    pub(super) pool: Option<String>,
    /// `tesela.dev/tenant` whose taint the pods must tolerate.
    pub(super) tenant: Option<String>,
}

const SEPARATE: &str = "{{$sep}}";
const NEXT: &str = "{{- $sep = \",\" -}}\n";

impl Edit {
    /// The template that makes the change.
    pub(super) fn forward(&self) -> String {
        let mut text = start();
        for from in &self.from {
            replace(&mut text, self.pod_spec, from, &self.to, self.one);
        }
        if let Some(pool) = &self.pool {
            select(&mut text, self.pod_spec, pool);
        }
        if let Some(tenant) = &self.tenant {
            tolerate(&mut text, self.pod_spec, tenant);
        }
        text + "]\n"
    }

    /// The template that takes it back. Amounts stay as they are now.
    pub(super) fn back(&self) -> String {
        let mut text = start();
        if let Some(from) = self.from.first() {
            replace(&mut text, self.pod_spec, &self.to, from, false);
        }
        if let Some(pool) = &self.pool {
            unselect(&mut text, self.pod_spec, pool);
        }
        if let Some(tenant) = &self.tenant {
            untolerate(&mut text, self.pod_spec, tenant);
        }
        text + "]\n"
    }
}

fn start() -> String {
    "{{- $sep := \"\" -}}\n[\n".to_owned()
}

/// A key as part of a JSON pointer (RFC 6901).
fn pointer(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// `/spec/template/spec` → `.spec.template.spec`.
fn field(pod_spec: &str) -> String {
    pod_spec.replace('/', ".")
}

fn replace(text: &mut String, pod_spec: &str, from: &str, to: &str, one: bool) {
    let (old, new, field) = (pointer(from), pointer(to), field(pod_spec));
    let amount = if one { "1" } else { "{{.}}" };
    let _ = write!(
        text,
        "{{{{- range $list, $containers := {field} -}}}}\n\
         {{{{- if or (eq $list \"containers\") (eq $list \"initContainers\") -}}}}\n\
         {{{{- range $i, $container := $containers -}}}}\n\
         {{{{- with $container.resources -}}}}\n\
         {{{{- range $part, $amounts := . -}}}}\n\
         {{{{- if or (eq $part \"limits\") (eq $part \"requests\") -}}}}\n\
         {{{{- with index $amounts \"{from}\" -}}}}\n\
         {{{{- if ne (printf \"%v\" .) \"0\" -}}}}\n\
         {{{{- $at := printf \"{pod_spec}/%s/%d\" $list $i -}}}}\n\
         {SEPARATE}{{\"op\":\"test\",\"path\":\"{{{{$at}}}}/name\",\"value\":\"{{{{$container.name}}}}\"}},\
         {{\"op\":\"test\",\"path\":\"{{{{$at}}}}/resources/{{{{$part}}}}/{old}\",\"value\":\"{{{{.}}}}\"}},\
         {{\"op\":\"remove\",\"path\":\"{{{{$at}}}}/resources/{{{{$part}}}}/{old}\"}},\
         {{\"op\":\"add\",\"path\":\"{{{{$at}}}}/resources/{{{{$part}}}}/{new}\",\"value\":\"{amount}\"}}\n\
         {NEXT}\
         {{{{- end -}}}}{{{{- end -}}}}{{{{- end -}}}}{{{{- end -}}}}{{{{- end -}}}}{{{{- end -}}}}{{{{- end -}}}}{{{{- end -}}}}\n"
    );
}

fn select(text: &mut String, pod_spec: &str, pool: &str) {
    let field = field(pod_spec);
    let _ = write!(
        text,
        "{{{{- $now := \"\" -}}}}\n\
         {{{{- with {field}.nodeSelector -}}}}{{{{- with index . \"tesela.dev/pool\" -}}}}{{{{- $now = . -}}}}{{{{- end -}}}}{{{{- end -}}}}\n\
         {{{{- if ne $now \"{pool}\" -}}}}\n\
         {{{{- if {field}.nodeSelector -}}}}\n\
         {SEPARATE}{{\"op\":\"add\",\"path\":\"{pod_spec}/nodeSelector/tesela.dev~1pool\",\"value\":\"{pool}\"}}\n\
         {{{{- else -}}}}\n\
         {SEPARATE}{{\"op\":\"add\",\"path\":\"{pod_spec}/nodeSelector\",\"value\":{{\"tesela.dev/pool\":\"{pool}\"}}}}\n\
         {{{{- end -}}}}\n\
         {NEXT}\
         {{{{- end -}}}}\n"
    );
}

fn unselect(text: &mut String, pod_spec: &str, pool: &str) {
    let field = field(pod_spec);
    let _ = write!(
        text,
        "{{{{- with {field}.nodeSelector -}}}}{{{{- with index . \"tesela.dev/pool\" -}}}}{{{{- if eq . \"{pool}\" -}}}}\n\
         {SEPARATE}{{\"op\":\"remove\",\"path\":\"{pod_spec}/nodeSelector/tesela.dev~1pool\"}}\n\
         {NEXT}\
         {{{{- end -}}}}{{{{- end -}}}}{{{{- end -}}}}\n"
    );
}

/// Finds our toleration: sets `$found` to its index, else -1.
fn find_toleration(text: &mut String, field: &str, tenant: &str) {
    let _ = write!(
        text,
        "{{{{- $found := -1 -}}}}\n\
         {{{{- range $i, $toleration := {field}.tolerations -}}}}\n\
         {{{{- with $toleration.key -}}}}{{{{- if eq . \"tesela.dev/tenant\" -}}}}\n\
         {{{{- with $toleration.value -}}}}{{{{- if eq . \"{tenant}\" -}}}}{{{{- $found = $i -}}}}{{{{- end -}}}}{{{{- end -}}}}\n\
         {{{{- end -}}}}{{{{- end -}}}}\n\
         {{{{- end -}}}}\n"
    );
}

fn tolerate(text: &mut String, pod_spec: &str, tenant: &str) {
    let field = field(pod_spec);
    let value = format!(
        "{{\"key\":\"tesela.dev/tenant\",\"operator\":\"Equal\",\"value\":\"{tenant}\",\"effect\":\"NoSchedule\"}}"
    );
    find_toleration(text, &field, tenant);
    let _ = write!(
        text,
        "{{{{- if eq $found -1 -}}}}\n\
         {{{{- if {field}.tolerations -}}}}\n\
         {SEPARATE}{{\"op\":\"add\",\"path\":\"{pod_spec}/tolerations/-\",\"value\":{value}}}\n\
         {{{{- else -}}}}\n\
         {SEPARATE}{{\"op\":\"add\",\"path\":\"{pod_spec}/tolerations\",\"value\":[{value}]}}\n\
         {{{{- end -}}}}\n\
         {NEXT}\
         {{{{- end -}}}}\n"
    );
}

fn untolerate(text: &mut String, pod_spec: &str, tenant: &str) {
    let field = field(pod_spec);
    find_toleration(text, &field, tenant);
    let _ = write!(
        text,
        "{{{{- if ne $found -1 -}}}}\n\
         {SEPARATE}{{\"op\":\"test\",\"path\":\"{pod_spec}/tolerations/{{{{$found}}}}/key\",\"value\":\"tesela.dev/tenant\"}},\
         {{\"op\":\"remove\",\"path\":\"{pod_spec}/tolerations/{{{{$found}}}}\"}}\n\
         {NEXT}\
         {{{{- end -}}}}\n"
    );
}
