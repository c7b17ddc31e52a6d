//! The catalogue: every part, typed, with its parameter sheet.

use std::collections::BTreeMap;

use softband_fabric::spec::FabricSpec;
use softband_model::parts::{BusPart, HcaPart, HostPart, SwitchPart};

use crate::diagnostic::{CatalogError, Fault, Findings};
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
        let mut findings: Vec<Findings> = files.iter().map(|file| Findings::new(&file.file, &file.text)).collect();
        // A part with a mistake stays in place, so that indices match and others can name it.
        let mut raw = Vec::new();
        let mut found = Vec::new();
        for (index, file) in files.iter().enumerate() {
            if let Some(part) = parts::read(file.kind, &file.name, &file.text, &mut findings[index]) {
                raw.push(part);
                found.push(index);
            }
        }
        let full = (0..raw.len()).map(|at| (parts::inherit(&raw, at, &mut findings[found[at]]), found[at]));
        let full: Vec<(RawPart, usize)> = full.collect();
        let variants = |(part, file)| parts::variants(part).into_iter().enumerate().map(move |(index, part)| (part, file, index > 0));
        let mut full: Vec<(RawPart, usize, bool)> = full.into_iter().flat_map(variants).collect();
        // What others refer to comes first.
        full.sort_by_key(|(part, ..)| stage(part));
        let mut catalog = Self::default();
        for (part, file, again) in &full {
            // What is wrong with the parts of one file is said of the first.
            if !again || findings[*file].errors.is_empty() {
                catalog.shelve(part, &mut findings[*file]);
            }
        }
        let errors: Vec<Fault> = findings.into_iter().flat_map(|findings| findings.errors).collect();
        if errors.is_empty() { Ok(catalog) } else { Err(CatalogError::new(errors)) }
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
