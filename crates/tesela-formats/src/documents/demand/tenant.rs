//! The tenants of a Demand document.

use std::collections::BTreeMap;

use tesela_model::demand::TenantClass;
use tesela_model::resource::GpuResource;

use super::TenantEdit;
use super::wire::TenantEntry;
use crate::diagnostic::shown;
use crate::documents::check::Check;
use crate::documents::name::NameRule;
use crate::source::{Located, Span};

/// At most so many pods of a workload, and devices of a quota.
pub(super) const MOST_PODS: i128 = 1_000_000_000;

/// Tenants read so far, and which namespace belongs to whom.
#[derive(Default)]
pub(super) struct Tenants {
    pub(super) edits: Vec<TenantEdit>,
    names: BTreeMap<String, Span>,
    owners: BTreeMap<String, (usize, Span)>,
    classes: Vec<Span>,
}

/// The tenant that owns a namespace.
pub(super) struct Owner<'t> {
    pub(super) name: &'t str,
    /// Where the namespace is listed.
    pub(super) at: Span,
    /// Where it is said that the tenant is regulated, if it is.
    pub(super) regulated: Option<Span>,
}

impl Tenants {
    pub(super) fn read(check: &mut Check<'_>, entries: &[Located<TenantEntry>]) -> Self {
        let mut tenants = Self::default();
        for entry in entries {
            tenants.add(check, &entry.value);
        }
        tenants
    }

    /// The tenant that owns a namespace by this document.
    pub(super) fn owner(&self, namespace: &str) -> Option<Owner<'_>> {
        let &(index, at) = self.owners.get(namespace)?;
        Some(self.described(index, at))
    }

    /// The tenant of a name, if this document has it.
    pub(super) fn named(&self, name: &str) -> Option<Owner<'_>> {
        let index = self.edits.iter().position(|tenant| tenant.name == name)?;
        Some(self.described(index, self.names[name]))
    }

    fn described(&self, index: usize, at: Span) -> Owner<'_> {
        let tenant = &self.edits[index];
        let regulated = (tenant.class == Some(TenantClass::Regulated)).then(|| self.classes[index]);
        Owner { name: &tenant.name, at, regulated }
    }

    fn add(&mut self, check: &mut Check<'_>, entry: &TenantEntry) {
        let name = &entry.name;
        check.name("tenant name", name, NameRule::Tenant);
        if let Some(&first) = self.names.get(&name.value) {
            check.duplicate("the tenant", &name.value, first, name.at);
            return;
        }
        self.names.insert(name.value.clone(), name.at);
        let index = self.edits.len();
        for namespace in entry.namespaces.iter().flatten() {
            self.namespace(check, namespace, index, &name.value);
        }
        self.classes.push(entry.class.as_ref().map_or(name.at, |class| class.at));
        self.edits.push(TenantEdit {
            name: name.value.clone(),
            namespaces: entry.namespaces.as_ref().map(|list| list.iter().map(|n| n.value.clone()).collect()),
            class: entry.class.as_ref().map(|class| class.value),
            quota: entry.quota.as_ref().map(|quota| {
                let line = |(resource, hard)| {
                    let hard = check.count("quota", Some(hard), 0, MOST_PODS);
                    Some((check.resource(resource)?, hard?))
                };
                quota.iter().filter_map(line).collect()
            }),
        });
    }

    fn namespace(&mut self, check: &mut Check<'_>, namespace: &Located<String>, index: usize, tenant: &str) {
        check.name("namespace", namespace, NameRule::Label);
        match self.owners.get(&namespace.value) {
            Some(&(owner, first)) if owner == index => {
                check.duplicate("the namespace", &namespace.value, first, namespace.at);
            }
            Some(&(owner, first)) => {
                let other = &self.edits[owner].name;
                let message = format!(
                    "namespace `{}` is in two tenants: `{other}` (line {first}) and `{tenant}`",
                    namespace.value
                );
                let fix = "a namespace belongs to one tenant; remove it from one of the two";
                check.error(namespace.at, "contradiction", &namespace.value, message, fix);
            }
            None => {
                self.owners.insert(namespace.value.clone(), (index, namespace.at));
            }
        }
    }
}

impl Check<'_> {
    /// A GPU resource name.
    pub(super) fn resource(&mut self, written: &Located<String>) -> Option<GpuResource> {
        let text = &written.value;
        if let Ok(resource) = text.parse() {
            return Some(resource);
        }
        let near = near_resource(text).map_or_else(String::new, |near| format!("did you mean `{near}`? "));
        let fix = format!(
            "{near}it is `nvidia.com/gpu` or `nvidia.com/mig-<profile>`, with `.shared` behind it where shares are renamed"
        );
        let message = format!("`{}` is no GPU resource", shown(text));
        self.error(written.at, "invalid-name", text, message, fix);
        None
    }
}

/// `requests.nvidia.com/gpu`, `gpu`, `nvidia.com/gpus`, `1g.10gb`: what was meant is plain.
fn near_resource(text: &str) -> Option<GpuResource> {
    let bare = text.strip_prefix("requests.").or_else(|| text.strip_prefix("limits.")).unwrap_or(text);
    let name = bare.rsplit('/').next().unwrap_or(bare);
    let candidates =
        [bare.to_owned(), format!("nvidia.com/{name}"), format!("nvidia.com/mig-{}", name.replace('+', "."))];
    let found = candidates.iter().find_map(|candidate| candidate.parse().ok());
    found.or_else(|| {
        crate::diagnostic::nearest(bare, ["nvidia.com/gpu", "nvidia.com/gpu.shared"])?.parse().ok()
    })
}
