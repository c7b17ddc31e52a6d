//! Kernels of hosts: `kernel` in `[fabric]` for all of them, and in the table of a host.

use softband_model::parts::KernelPart;
use softband_spec::FabricSpec;

use super::Context;
use crate::catalog::Catalog;
use crate::document::{Entry, Fields, Value};
use crate::parts::PartKind;

/// Kernel part of hosts that name none.
const USUAL: &str = "linux-6.1";
/// A valid value, for messages.
const EXAMPLE: &str = "\"linux-6.1\", a kernel part";

/// Returns the kernel of hosts that name none. Returns `None` after an error.
pub(super) fn usual(fabric: Option<&Entry>, context: &mut Context<'_>) -> Option<KernelPart> {
    let built_in = || KernelPart { name: USUAL.to_owned(), ..KernelPart::linux_6_1() };
    let usual = context.catalog.kernel(USUAL).cloned().unwrap_or_else(built_in);
    let Some(entry) = fabric.filter(|entry| entry.has("kernel")) else { return Some(usual) };
    // An error about the table itself is reported already.
    let Value::Table(entries) = &entry.node.value else { return None };
    read(&mut Fields::new("`[fabric]`", entry.key_span.clone(), entries), Some(&usual), context)
}

/// Reads `kernel`, with this default.
pub(super) fn read(fields: &mut Fields<'_>, usual: Option<&KernelPart>, context: &mut Context<'_>) -> Option<KernelPart> {
    if !fields.has("kernel") {
        fields.optional("kernel");
        return usual.cloned();
    }
    let (name, span) = fields.optional_text("kernel", EXAMPLE, &mut context.findings)?;
    context.part(PartKind::Kernel, name, span, |all: &Catalog, name| all.kernel(name).cloned())
}

/// Records that the kernels are in use, if sockets of the fabric need them.
pub(super) fn use_kernels(spec: &FabricSpec, context: &mut Context<'_>) {
    if spec.has_modelled_network() {
        spec.hosts.iter().for_each(|host| context.use_sheet(PartKind::Kernel, &host.kernel.name));
    }
}
