//! The catalogue: every part, typed, with its parameter sheet.

use std::collections::BTreeMap;

use softband_model::parts::{BusPart, HcaPart, HostPart, KernelPart, NicPart, SwitchPart};
use softband_spec::FabricSpec;

use crate::diagnostic::{CatalogError, Findings, Warning};
use crate::parts::{self, CableTemplate, LengthLimit, PartKind, PartReader, PartSheet, RawPart};

type Shelf<T> = BTreeMap<String, (T, PartSheet)>;

/// A part file as found on the disk.
#[derive(Clone, Debug)]
pub struct PartFile {
    pub kind: PartKind,
    /// Name of the part: the name of the file without `.toml`.
    pub name: String,
    /// Name of the file in messages.
    pub file: String,
    pub text: String,
}

/// The parts that `[generate]` uses where the file names none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsualParts {
    pub host: String,
    pub hca: String,
    pub device: String,
    pub switch: Option<String>,
    pub cable: String,
    pub cable_length: String,
}

impl UsualParts {
    /// Returns the first part of each kind. Returns `None` if a host, an HCA or a cable is missing.
    pub fn of(spec: &FabricSpec) -> Option<Self> {
        let (host, cable) = (spec.hosts.first()?, spec.cables.first()?);
        let hca = host.hcas.first()?;
        Some(Self {
            host: host.part.name.clone(),
            hca: hca.part.name.clone(),
            device: hca.device.clone(),
            switch: spec.switches.first().map(|switch| switch.part.name.clone()),
            cable: cable.part.name.clone(),
            cable_length: format!("{} m", cable.part.length_millimetres as f64 / 1e3),
        })
    }
}

/// All known parts.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    usual: Option<UsualParts>,
    warnings: Vec<Warning>,
    buses: Shelf<BusPart>,
    cables: Shelf<CableTemplate>,
    hcas: Shelf<HcaPart>,
    hosts: Shelf<HostPart>,
    kernels: Shelf<KernelPart>,
    nics: Shelf<NicPart>,
    limits: Shelf<Vec<LengthLimit>>,
    switches: Shelf<SwitchPart>,
}

impl Catalog {
    /// Builds the catalogue from part files. Reports all mistakes of all files together.
    pub fn from_files(files: &[PartFile]) -> Result<Self, CatalogError> {
        Self::from_layers(&[files])
    }

    /// Merges several catalogues. A part replaces the part of the same name in earlier layers, with
    /// a warning if the texts of their files differ.
    /// Every reference finds the last part of a name, with one exception. `like` never looks into
    /// later layers, so a later layer leaves earlier parts alone.
    pub fn from_layers(layers: &[&[PartFile]]) -> Result<Self, CatalogError> {
        let files: Vec<(usize, &PartFile)> =
            layers.iter().enumerate().flat_map(|(layer, files)| files.iter().map(move |file| (layer, file))).collect();
        let mut findings: Vec<Findings> = files.iter().map(|(_, file)| Findings::new(&file.file, &file.text)).collect();
        let read =
            |((layer, file), findings): (&(usize, &PartFile), &mut Findings)| parts::read((*layer, file.kind), &file.name, &file.text, findings);
        let raw: Vec<RawPart> = files.iter().zip(&mut findings).map(read).collect();
        let full: Vec<(RawPart, usize)> =
            findings.iter_mut().enumerate().filter_map(|(at, findings)| Some((parts::inherit(&raw, at, findings)?, at))).collect();
        let variants = |(part, file)| parts::variants(part).into_iter().enumerate().map(move |(index, part)| (part, file, index > 0));
        let mut full: Vec<(RawPart, usize, bool)> = full.into_iter().flat_map(variants).collect();
        let replaced = last_of_each_name(&mut full);
        // Parts refer only to parts of earlier stages.
        full.sort_by_key(|(part, ..)| stage(part));
        let mut catalog = Self::default();
        for (part, file, again) in &full {
            // All parts of a file share its faults, so the first part reports them.
            if !again || findings[*file].errors.is_empty() {
                catalog.shelve(part, &mut findings[*file]);
            }
        }
        for ((new, old), names) in replaced.iter().filter(|((new, old), _)| files[*new].1.text != files[*old].1.text) {
            findings[*new].replaced(files[*new].1.kind, names, &files[*old].1.file);
        }
        let (mut errors, mut warnings) = (Vec::new(), Vec::new());
        for (findings, part) in findings.into_iter().zip(&raw) {
            errors.push((stage(part), findings.errors));
            warnings.extend(findings.warnings);
        }
        // The error of a broken part precedes the errors of the parts that refer to it.
        errors.sort_by_key(|(stage, _)| *stage);
        let errors: Vec<_> = errors.into_iter().flat_map(|(_, errors)| errors).collect();
        catalog.warnings = warnings;
        if errors.is_empty() { Ok(catalog) } else { Err(CatalogError::new(errors)) }
    }

    /// Returns the warnings about the parts. A warning does not stop the load.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
    pub(crate) fn warn(&mut self, warnings: Vec<Warning>) {
        self.warnings.extend(warnings);
    }

    fn shelve(&mut self, part: &RawPart, findings: &mut Findings) {
        let part = &*parts::with_defaults(part);
        let (read, name) = (PartReader::new(part, findings), part.name.clone());
        match part.kind {
            PartKind::Bus => {
                let bus = parts::bus(read, &self.buses);
                keep(&mut self.buses, name, bus);
            }
            PartKind::Cable => keep(&mut self.cables, name, parts::cable(read, &self.limits)),
            PartKind::Hca => keep(&mut self.hcas, name, parts::hca(read)),
            PartKind::Host => keep(&mut self.hosts, name, parts::host(read, &self.buses)),
            PartKind::Kernel => keep(&mut self.kernels, name, parts::kernel(read)),
            PartKind::Nic => keep(&mut self.nics, name, parts::nic(read)),
            PartKind::Limit => keep(&mut self.limits, name, parts::length_limits(read)),
            PartKind::Switch => keep(&mut self.switches, name, parts::switch(read)),
        }
    }

    /// Returns this catalogue with `parts` added. An added part replaces the part of the same name.
    /// Faults go to `findings`.
    pub(crate) fn with_parts(&self, mut parts: Vec<RawPart>, findings: &mut Findings) -> Self {
        let mut catalog = self.clone();
        parts.sort_by_key(stage);
        parts.iter().for_each(|part| catalog.shelve(part, findings));
        catalog
    }

    /// Sets the parts that `[generate]` uses where a file names none.
    pub fn set_usual_parts(&mut self, usual: Option<UsualParts>) {
        self.usual = usual;
    }
    pub(crate) fn usual_parts(&self) -> Option<&UsualParts> {
        self.usual.as_ref()
    }

    /// Returns the names of all parts of a kind, in order.
    pub fn parts(&self, kind: PartKind) -> Vec<&str> {
        match kind {
            PartKind::Bus => names(&self.buses),
            PartKind::Cable => names(&self.cables),
            PartKind::Hca => names(&self.hcas),
            PartKind::Host => names(&self.hosts),
            PartKind::Kernel => names(&self.kernels),
            PartKind::Limit => names(&self.limits),
            PartKind::Nic => names(&self.nics),
            PartKind::Switch => names(&self.switches),
        }
    }

    /// Returns every parameter of a part with unit, source and status.
    pub fn sheet(&self, kind: PartKind, name: &str) -> Option<&PartSheet> {
        match kind {
            PartKind::Bus => self.buses.get(name).map(|(_, sheet)| sheet),
            PartKind::Cable => self.cables.get(name).map(|(_, sheet)| sheet),
            PartKind::Hca => self.hcas.get(name).map(|(_, sheet)| sheet),
            PartKind::Host => self.hosts.get(name).map(|(_, sheet)| sheet),
            PartKind::Kernel => self.kernels.get(name).map(|(_, sheet)| sheet),
            PartKind::Limit => self.limits.get(name).map(|(_, sheet)| sheet),
            PartKind::Nic => self.nics.get(name).map(|(_, sheet)| sheet),
            PartKind::Switch => self.switches.get(name).map(|(_, sheet)| sheet),
        }
    }

    /// Returns the sheets of all parts of that name, of any kind.
    pub fn find(&self, name: &str) -> Vec<&PartSheet> {
        PartKind::ALL.into_iter().filter_map(|kind| self.sheet(kind, name)).collect()
    }

    pub fn bus(&self, name: &str) -> Option<&BusPart> {
        self.buses.get(name).map(|(part, _)| part)
    }
    pub fn hca(&self, name: &str) -> Option<&HcaPart> {
        self.hcas.get(name).map(|(part, _)| part)
    }
    pub fn host(&self, name: &str) -> Option<&HostPart> {
        self.hosts.get(name).map(|(part, _)| part)
    }
    pub fn kernel(&self, name: &str) -> Option<&KernelPart> {
        self.kernels.get(name).map(|(part, _)| part)
    }
    pub fn nic(&self, name: &str) -> Option<&NicPart> {
        self.nics.get(name).map(|(part, _)| part)
    }
    pub fn switch(&self, name: &str) -> Option<&SwitchPart> {
        self.switches.get(name).map(|(part, _)| part)
    }
    pub(crate) fn cable_template(&self, name: &str) -> Option<&CableTemplate> {
        self.cables.get(name).map(|(part, _)| part)
    }
    pub(crate) fn limits(&self, name: &str) -> Option<&[LengthLimit]> {
        self.limits.get(name).map(|(limits, _)| limits.as_slice())
    }
}

/// Indices of the new and the old file, with the names of the parts that the new file replaces.
type Replaced = BTreeMap<(usize, usize), Vec<String>>;

/// Keeps, of all parts of a name, those of the last layer.
fn last_of_each_name(parts: &mut Vec<(RawPart, usize, bool)>) -> Replaced {
    let key = |part: &RawPart| (part.kind, part.name.clone());
    let mut last = BTreeMap::new();
    for (part, file, _) in &*parts {
        let entry = last.entry(key(part)).or_insert((part.layer, *file));
        *entry = (*entry).max((part.layer, *file));
    }
    let mut replaced = Replaced::new();
    parts.retain(|(part, file, _)| {
        let (layer, by) = last[&key(part)];
        if part.layer < layer {
            replaced.entry((by, *file)).or_default().push(part.name.clone());
        }
        part.layer == layer
    });
    replaced
}

/// Returns the rank of a part. A part refers only to parts of lower rank; a bridge names its slot.
fn stage(part: &RawPart) -> (usize, bool) {
    let kinds = [PartKind::Bus, PartKind::Kernel, PartKind::Limit, PartKind::Hca, PartKind::Nic, PartKind::Switch, PartKind::Host, PartKind::Cable];
    let rank = kinds.into_iter().position(|kind| kind == part.kind).unwrap_or(kinds.len());
    (rank, part.parameters.iter().any(|parameter| parameter.name == "slot"))
}

fn keep<T>(shelf: &mut Shelf<T>, name: String, part: Option<(T, PartSheet)>) {
    if let Some(part) = part {
        shelf.insert(name, part);
    }
}

fn names<T>(shelf: &Shelf<T>) -> Vec<&str> {
    shelf.keys().map(String::as_str).collect()
}
