//! The catalogue: every part, typed, with its parameter sheet.

use std::collections::BTreeMap;

use softband_fabric::spec::FabricSpec;
use softband_model::parts::{BusPart, HcaPart, HostPart, SwitchPart};

use crate::diagnostic::{CatalogError, Findings, Warning};
use crate::parts::{self, CableTemplate, LengthLimit, PartKind, PartReader, PartSheet, RawPart};

type Shelf<T> = BTreeMap<String, (T, PartSheet)>;

/// One part file as it was found.
#[derive(Clone, Debug)]
pub struct PartFile {
    pub kind: PartKind,
    /// The part's name: the file's name without `.toml`.
    pub name: String,
    /// How messages call the file.
    pub file: String,
    pub text: String,
}

/// The parts of a fabric that stand in where none are named.
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
    /// The first of each kind; `None` where a host, an HCA or a cable is missing.
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
    limits: Shelf<Vec<LengthLimit>>,
    switches: Shelf<SwitchPart>,
}

impl Catalog {
    /// Builds the catalogue from part files; all mistakes of all files are reported together.
    pub fn from_files(files: &[PartFile]) -> Result<Self, CatalogError> {
        Self::from_layers(&[files])
    }

    /// Several catalogues in one. A part takes the place of the one of its name in those before, with a warning where its file says something
    /// else. A reference to a part finds the last of that name; only `like` never looks into later catalogues, which so change no other part.
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
        // What others refer to comes first.
        full.sort_by_key(|(part, ..)| stage(part));
        let mut catalog = Self::default();
        for (part, file, again) in &full {
            // A file with several parts has each finding once, at the first part.
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
        // A part that others cannot refer to comes before what they say of that.
        errors.sort_by_key(|(stage, _)| *stage);
        let errors: Vec<_> = errors.into_iter().flat_map(|(_, errors)| errors).collect();
        catalog.warnings = warnings;
        if errors.is_empty() { Ok(catalog) } else { Err(CatalogError::new(errors)) }
    }

    /// What the user should know of the parts; no reason to stop.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
    pub(crate) fn warn(&mut self, warnings: Vec<Warning>) {
        self.warnings.extend(warnings);
    }

    fn shelve(&mut self, part: &RawPart, findings: &mut Findings) {
        let (read, name) = (PartReader::new(part, findings), part.name.clone());
        match part.kind {
            PartKind::Bus => {
                let bus = parts::bus(read, &self.buses);
                keep(&mut self.buses, name, bus);
            }
            PartKind::Cable => keep(&mut self.cables, name, parts::cable(read, &self.limits)),
            PartKind::Hca => keep(&mut self.hcas, name, parts::hca(read)),
            PartKind::Host => keep(&mut self.hosts, name, parts::host(read, &self.buses)),
            PartKind::Limit => keep(&mut self.limits, name, parts::length_limits(read)),
            PartKind::Switch => keep(&mut self.switches, name, parts::switch(read)),
        }
    }

    /// This catalogue with parts in place of those of their names, or besides them. Faults go to `findings`.
    pub(crate) fn with_parts(&self, mut parts: Vec<RawPart>, findings: &mut Findings) -> Self {
        let mut catalog = self.clone();
        parts.sort_by_key(stage);
        parts.iter().for_each(|part| catalog.shelve(part, findings));
        catalog
    }

    /// What `[generate]` takes where a file does not name parts.
    pub fn set_usual_parts(&mut self, usual: Option<UsualParts>) {
        self.usual = usual;
    }
    pub(crate) fn usual_parts(&self) -> Option<&UsualParts> {
        self.usual.as_ref()
    }

    /// Names of all parts of a kind, in order.
    pub fn parts(&self, kind: PartKind) -> Vec<&str> {
        match kind {
            PartKind::Bus => names(&self.buses),
            PartKind::Cable => names(&self.cables),
            PartKind::Hca => names(&self.hcas),
            PartKind::Host => names(&self.hosts),
            PartKind::Limit => names(&self.limits),
            PartKind::Switch => names(&self.switches),
        }
    }

    /// Every parameter of a part with unit, source and status.
    pub fn sheet(&self, kind: PartKind, name: &str) -> Option<&PartSheet> {
        match kind {
            PartKind::Bus => self.buses.get(name).map(|(_, sheet)| sheet),
            PartKind::Cable => self.cables.get(name).map(|(_, sheet)| sheet),
            PartKind::Hca => self.hcas.get(name).map(|(_, sheet)| sheet),
            PartKind::Host => self.hosts.get(name).map(|(_, sheet)| sheet),
            PartKind::Limit => self.limits.get(name).map(|(_, sheet)| sheet),
            PartKind::Switch => self.switches.get(name).map(|(_, sheet)| sheet),
        }
    }

    /// The sheets of all parts of that name, whatever their kind.
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

/// Files by index, the new and the old one, with the names of the parts of the old one that the new one has.
type Replaced = BTreeMap<(usize, usize), Vec<String>>;

/// Leaves of the parts of one name that of the last layer.
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

/// Kinds in the order in which they refer to each other; a bridge names its slot.
fn stage(part: &RawPart) -> (usize, bool) {
    let kinds = [PartKind::Bus, PartKind::Limit, PartKind::Hca, PartKind::Switch, PartKind::Host, PartKind::Cable];
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
