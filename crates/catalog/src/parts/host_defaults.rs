//! Values of parameters that host parts of earlier versions lack.

use std::borrow::Cow;
use std::sync::LazyLock;

use crate::diagnostic::Findings;
use crate::parts::raw::{self, RawParameter, RawPart};
use crate::parts::{PartKind, Status};

const FILE: &str = "host_defaults.toml";

static DEFAULTS: LazyLock<Vec<RawParameter>> = LazyLock::new(|| {
    let mut findings = Findings::new(FILE, include_str!("host_defaults.toml"));
    let mut part = raw::read((0, PartKind::Host), "host_defaults", include_str!("host_defaults.toml"), &mut findings);
    debug_assert!(findings.errors.is_empty() && part.parameters.iter().all(|parameter| parameter.status == Status::Assumed));
    // Faults would have no place in the file of the part.
    part.parameters.iter_mut().for_each(|parameter| parameter.inherited = true);
    part.parameters
});

/// Returns a part with assumed values for the parameters that it may leave out.
pub(crate) fn with_defaults(part: &RawPart) -> Cow<'_, RawPart> {
    let has = |name: &str| part.parameters.iter().any(|own| own.name == name) || part.broken.iter().any(|broken| broken == name);
    let missing: Vec<RawParameter> = DEFAULTS.iter().filter(|default| !has(&default.name)).cloned().collect();
    if part.kind != PartKind::Host || missing.is_empty() {
        return Cow::Borrowed(part);
    }
    let mut full = part.clone();
    full.parameters.extend(missing);
    Cow::Owned(full)
}
