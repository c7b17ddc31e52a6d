//! Fabric files: from TOML to a checked fabric.

mod buses;
mod cables;
mod congestion;
mod edition;
mod ethernet;
mod faults;
mod generate;
mod guids;
pub(crate) mod interfaces;
mod kernels;
mod nics;
mod nodes;
mod qos;
pub(crate) mod resolved;
mod slots;
mod slower;
mod stated;
mod subnet;
pub(crate) mod train;

use std::collections::BTreeMap;
use std::ops::Range;

use softband_spec::FabricSpec;

use crate::catalog::Catalog;
use crate::diagnostic::{FabricError, Findings, Warning, suggest};
use crate::document::{self, Entry, Fields};
use crate::parts::{PartKind, PartSheet, parts_of_table};
use crate::start_date::StartDate;
use generate::Generated;
pub use generate::expand;
use nodes::{HostDraft, SwitchDraft};

/// The table of parts in a resolved fabric.
const PARTS: &str = "parts";

/// Strictness of the loader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// Downgrades copper beyond its length limit from an error to a warning.
    pub allow_out_of_spec: bool,
}

/// A fabric file with every part resolved.
#[derive(Clone, Debug)]
pub struct LoadedFabric {
    pub spec: FabricSpec,
    /// Warnings for the user. A warning does not stop the run.
    pub warnings: Vec<Warning>,
    /// Seed of all randomness in a run.
    pub seed: u64,
    /// Date of the hosts' clocks at simulated time zero.
    pub start_date: StartDate,
    /// Sheets of the parts in use, each once, by kind and name.
    sheets: BTreeMap<(PartKind, String), PartSheet>,
}

impl LoadedFabric {
    /// Returns the fabric with every resolved value and its source, for the run folder.
    pub fn resolved_toml(&self) -> String {
        resolved::resolved_toml(&self.spec, (self.seed, self.start_date), &self.sheets)
    }
    /// Adds the faults of a plan: a file that holds only `[[faults]]`. `file` names it in messages.
    /// Leaves the fabric as it was if the plan has a mistake.
    pub fn add_faults(&mut self, file: &str, text: &str) -> Result<(), FabricError> {
        let mut findings = Findings::new(file, text);
        let mut added = Vec::new();
        if let Some(entries) = document::parse(text, &mut findings) {
            let mut top = Fields::new("the fault plan", 0..0, &entries);
            added = faults::read_faults(top.optional("faults"), &self.spec, &mut findings);
            top.finish(&mut findings);
            if added.is_empty() && findings.errors.is_empty() {
                findings.error("the fault plan has no fault".into(), Vec::new(), Some("write `[[faults]]`, with its `kind`".into()));
            }
        }
        if !findings.errors.is_empty() {
            return Err(FabricError::new(findings.errors));
        }
        self.spec.faults.append(&mut added);
        Ok(())
    }
    /// Returns the sheets of the parts in use, by kind and name.
    pub fn sheets(&self) -> impl Iterator<Item = &PartSheet> {
        self.sheets.values()
    }
}

/// State that the passes over one file share.
struct Context<'a> {
    catalog: &'a Catalog,
    options: LoadOptions,
    findings: Findings,
    sheets: BTreeMap<(PartKind, String), PartSheet>,
}

impl Context<'_> {
    /// Records that a part is in use. The resolved fabric then contains its sheet and the sheets of
    /// the parts that it names.
    fn use_sheet(&mut self, kind: PartKind, name: &str) {
        let key = (kind, name.to_owned());
        let (false, Some(sheet)) = (self.sheets.contains_key(&key), self.catalog.sheet(kind, name)) else { return };
        self.sheets.insert(key, sheet.clone());
        for parameter in &sheet.parameters {
            match parameter.name.as_str() {
                "bus" | "slot" => self.use_sheet(PartKind::Bus, &parameter.value),
                "length_limits" => self.use_sheet(PartKind::Limit, &parameter.value),
                _ => {}
            }
        }
    }

    /// Returns the part called `name`. Otherwise reports an error that lists the known parts.
    fn part<T: Clone>(&mut self, kind: PartKind, name: &str, span: Range<usize>, get: fn(&Catalog, &str) -> Option<T>) -> Option<T> {
        let found = get(self.catalog, name);
        if found.is_some() {
            self.use_sheet(kind, name);
            return found;
        }
        let mut help = suggest(name, &format!("{kind} parts"), &self.catalog.parts(kind));
        if let Some(other) = self.catalog.find(name).first() {
            help = format!("`{name}` is a {} part; {help}", other.kind);
        }
        self.findings.error(format!("no {kind} part `{name}`"), vec![(span, "unknown part".into())], Some(help));
        None
    }
}

/// Checks the text of a fabric file. `file` names it in messages. Reads no files and never panics.
pub fn parse_fabric(file: &str, text: &str, catalog: &Catalog, options: &LoadOptions) -> Result<LoadedFabric, FabricError> {
    let mut findings = Findings::new(file, text);
    let entries = document::parse(text, &mut findings).filter(|entries| edition::is_known(entries, &mut findings));
    let own = entries.as_deref().and_then(|entries| own_parts(entries, catalog, &mut findings));
    let catalog = own.as_ref().unwrap_or(catalog);
    let mut context = Context { catalog, options: *options, findings, sheets: BTreeMap::new() };
    let parsed = entries.and_then(|entries| read_document(file, &entries, &mut context));
    let Context { findings, sheets, .. } = context;
    match parsed {
        Some((spec, (seed, start_date))) if findings.errors.is_empty() => {
            Ok(LoadedFabric { spec, warnings: findings.warnings, seed, start_date, sheets })
        }
        _ => Err(FabricError::new(findings.errors)),
    }
}

/// Returns the catalogue with the parts of a resolved fabric, so that a run's fabric survives
/// changes of parts. Returns `None` if the file has no parts.
fn own_parts(entries: &[Entry], catalog: &Catalog, findings: &mut Findings) -> Option<Catalog> {
    let table = entries.iter().find(|entry| entry.key == PARTS)?;
    let parts = parts_of_table(table, findings);
    Some(catalog.with_parts(parts, findings))
}

fn read_document(file: &str, entries: &[Entry], context: &mut Context<'_>) -> Option<(FabricSpec, RunDefaults)> {
    let mut top = Fields::new("the file", 0..0, entries);
    // Messages do not list this key, because only resolved fabrics have it. So the code asks for it
    // only if it is present.
    let _ = top.has(PARTS).then(|| top.optional(PARTS));
    let fabric_entry = top.optional("fabric");
    let (title, defaults) = read_fabric(fabric_entry, file, &mut context.findings);
    let subnet_entry = top.optional("subnet");
    let mut subnet = subnet::read_subnet(subnet_entry, &mut context.findings);
    let ethernet_entry = top.optional("ethernet");
    let ethernet = ethernet::read_ethernet(ethernet_entry, &mut context.findings);
    let interfaces_entry = top.optional("interfaces");
    let generate_entry = top.optional("generate");
    let written = [top.optional("hosts"), top.optional("switches"), top.optional("cables")];
    let generated = generate_entry.map(|entry| generated(entry, written, context));
    let Some(generated) = generated.map_or(Some(None), |made| made.map(Some)) else {
        top.finish(&mut context.findings);
        return None;
    };
    if let Some(generated) = generated.as_ref().filter(|_| !subnet_entry.is_some_and(|entry| entry.has("routing"))) {
        subnet.routing = generated.routing;
    }
    let made = generated.as_ref().map(|made| [Some(&made.hosts), Some(&made.switches), Some(&made.cables)]);
    let [hosts_entry, switches_entry, cables_entry] = made.unwrap_or(written);
    let kernel = kernels::usual(fabric_entry, context);
    let mut hosts = nodes::hosts(hosts_entry, kernel.as_ref(), context);
    let mut switches = nodes::switches(switches_entry, context);
    nodes::check_names(&hosts, &switches, &mut context.findings);
    let faults_entry = top.optional("faults");
    let cables = cables::cables(cables_entry, &hosts, &switches, context);
    top.finish(&mut context.findings);
    if generated.is_some() {
        context.findings.say_once();
    }
    if hosts.is_empty() && context.findings.errors.is_empty() {
        let help = "add `[hosts.a]` with its `part` and an HCA under `[[hosts.a.hcas]]`";
        context.findings.error("the fabric has no host".into(), Vec::new(), Some(help.into()));
    }
    guids::assign(&mut hosts, &mut switches, &mut context.findings);
    if !context.findings.errors.is_empty() {
        return None;
    }
    nodes::warn_of_idle_hcas(&hosts, &cables, &mut context.findings);
    let hosts = hosts.into_iter().map(HostDraft::into_spec).collect::<Option<_>>()?;
    let switches = switches.into_iter().map(SwitchDraft::into_spec).collect::<Option<_>>()?;
    let mut spec = FabricSpec { title, hosts, switches, cables, subnet, ethernet, faults: Vec::new() };
    interfaces::read_interfaces([interfaces_entry, hosts_entry], &mut spec, &mut context.findings);
    kernels::use_kernels(&spec, context);
    spec.faults = faults::read_faults(faults_entry, &spec, &mut context.findings);
    subnet::check_routing(subnet_entry, &spec, &mut context.findings);
    subnet::check_lids(subnet_entry, &spec, &mut context.findings);
    nics::check(cables_entry, &spec, &mut context.findings);
    qos::check_qos(subnet_entry, &mut spec, &mut context.findings);
    ethernet::warn((ethernet_entry, cables_entry), &spec, &mut context.findings);
    congestion::warn_of_bystanders(subnet_entry, &spec, &mut context.findings);
    Some((spec, defaults))
}

/// Returns the tables that `[generate]` stands for. Returns `None` after an error.
fn generated(entry: &Entry, written: [Option<&Entry>; 3], context: &mut Context<'_>) -> Option<Generated> {
    generate::refuse_beside(written, &mut context.findings);
    let generated = generate::generate(entry, context);
    generated.filter(|_| context.findings.errors.is_empty())
}

/// Seed and start date, which apply to runs unless the command line overrides them.
type RunDefaults = (u64, StartDate);

fn read_fabric(entry: Option<&Entry>, file: &str, findings: &mut Findings) -> (String, RunDefaults) {
    const SEED_DEFAULT: u64 = 1;
    let untitled = (file.to_owned(), (SEED_DEFAULT, StartDate::DEFAULT));
    let Some(entry) = entry else { return untitled };
    let Some(mut fields) = Fields::of("`[fabric]`", &entry.node, entry.key_span.clone(), findings) else { return untitled };
    let title = fields.optional_text("title", "\"what this fabric is\"", findings);
    let seed = fields.optional_integer("seed", findings);
    let start_date = fields.optional_text("start_date", "\"2026-01-31\"", findings);
    // `edition.rs` and `kernels.rs` read these.
    fields.optional("edition");
    fields.optional("kernel");
    fields.finish(findings);
    let seed = seed.map_or(SEED_DEFAULT, |(seed, span)| {
        u64::try_from(seed).unwrap_or_else(|_| {
            findings.error(format!("the seed {seed} is negative"), vec![(span, "here".into())], Some("write 0 or more".into()));
            SEED_DEFAULT
        })
    });
    let start_date = start_date.map_or(StartDate::DEFAULT, |(text, span)| {
        StartDate::parse(text).unwrap_or_else(|message| {
            let (what, help) = message.split_once(": ").unwrap_or((&message, ""));
            findings.error(what.to_owned(), vec![(span, "here".into())], Some(help.to_owned()));
            StartDate::DEFAULT
        })
    });
    (title.map_or(untitled.0, |(title, _)| title.to_owned()), (seed, start_date))
}
