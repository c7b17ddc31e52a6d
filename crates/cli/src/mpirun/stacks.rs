//! The MPI libraries, and the variables that each needs on a fabric.

use crate::recording::compute::DEFAULT_COMPILER;
use softband_engine::Pace;
use std::fmt;
use std::path::Path;

/// An MPI library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Stack {
    /// MPICH 4 or 5, over UCX
    Mpich,
    /// Intel MPI, over UCX by libfabric
    Intelmpi,
    /// Open MPI 4, over UCX
    Openmpi4,
    /// Open MPI 5, over UCX
    Openmpi5,
}

impl fmt::Display for Stack {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Mpich => "MPICH",
            Self::Intelmpi => "Intel MPI",
            Self::Openmpi4 => "Open MPI 4",
            Self::Openmpi5 => "Open MPI 5",
        })
    }
}

/// A rank's place in its job.
pub(crate) struct Rank {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    /// Number among the ranks of its host, and their number.
    pub(crate) local: (usize, usize),
}

impl Stack {
    /// Returns the compiler of the library: `wanted`, or if the user named none, that `beside` the
    /// library, or Debian's for it.
    pub(crate) fn compiler(self, wanted: &str, beside: Option<&Path>) -> String {
        let debian = match self {
            Self::Mpich => "mpicc.mpich",
            Self::Openmpi4 => "mpicc.openmpi",
            Self::Openmpi5 | Self::Intelmpi => DEFAULT_COMPILER,
        };
        let beside = beside.and_then(Path::to_str).filter(|_| self == Self::Openmpi5);
        let own = beside.unwrap_or(debian);
        if wanted == DEFAULT_COMPILER && crate::programs::why_not_to_run(own).is_none() { own.to_owned() } else { wanted.to_owned() }
    }

    /// Returns the variables by which the library runs on a fabric. `shares_host` states that a host
    /// has several ranks. The user's own values win.
    pub(crate) fn settings(self, pace: Pace, shares_host: bool) -> Vec<(&'static str, &'static str)> {
        // With its transports of shared memory, UCX maps such memory even in a rank alone on its host.
        // A rank with such memory does not compute beside others in simulated time.
        let transports = if shares_host { "rc_verbs,ud_verbs,sm,self" } else { "rc_verbs,ud_verbs,self" };
        // Only `sm` of Open MPI has windows of shared memory, between ranks of a host.
        let windows = if shares_host { "ucx,sm" } else { "ucx" };
        let mut settings = vec![
            // hwloc looks for displays of X11 by TCP.
            ("HWLOC_COMPONENTS", "-gl,-pci,-linuxio"),
            // Without the connection manager and TCP, which UCX also finds.
            ("UCX_TLS", transports),
            ("UCX_MODULES", "^rdmacm"),
        ];
        if pace == Pace::Virtual {
            // Clearing huge pages takes a rank most of its start, and simulated time has no use for them.
            settings.push(("UCX_IB_ALLOC", "md,mmap,heap"));
        }
        match self {
            Self::Mpich => {}
            // Its launcher otherwise draws this number, by which jobs keep apart. A host has no other job.
            Self::Intelmpi => settings.push(("FI_PSM3_UUID", "50f7ba2d-0000-4000-8000-000000000001")),
            // The transports of `OMPI_MCA_btl` serve pml/ob1 only.
            Self::Openmpi4 => settings.extend([
                ("OMPI_MCA_pml", "ucx"),
                ("OMPI_MCA_osc", windows),
                ("OMPI_MCA_btl", "self"),
                ("OMPI_MCA_pmix", "flux"),
                ("OMPI_MCA_ess", "pmi"),
            ]),
            Self::Openmpi5 => settings.extend([
                ("OMPI_MCA_pml", "ucx"),
                ("OMPI_MCA_osc", windows),
                ("OMPI_MCA_btl", "self"),
                // The other store of the job's data maps a file, which the ranks of all hosts would share.
                ("PMIX_MCA_gds", "hash"),
                // A strong fence of UCX 1.20 reads 8 bytes by key 0xff where the HCA has no DevX, which
                // each HCA refuses.
                ("UCX_FENCE_MODE", "weak"),
            ]),
        }
        if self == Self::Openmpi5 && pace == Pace::Virtual {
            // UCX 1.20 otherwise changes functions at run time, and yields the processor a thousand
            // times for each. UCX 1.13 waits for itself in this mode.
            settings.push(("UCX_MEM_MMAP_HOOK_MODE", "reloc"));
        }
        settings
    }

    /// Returns the variables by which a rank finds its job. `library` is the C library of PMI-1,
    /// `scratch` a folder that goes with the job.
    pub(crate) fn identity(self, rank: &Rank, server: &str, library: &str, scratch: &Path) -> Vec<(String, String)> {
        let (number, size) = (rank.rank.to_string(), rank.size.to_string());
        let (local, locals) = (rank.local.0.to_string(), rank.local.1.to_string());
        let mut variables = match self {
            Self::Openmpi5 => Vec::new(),
            Self::Mpich | Self::Intelmpi | Self::Openmpi4 => {
                let rank = number.clone();
                vec![("PMI_PORT", server.to_owned()), ("PMI_ID", rank.clone()), ("PMI_RANK", rank), ("PMI_SIZE", size.clone())]
            }
        };
        if self == Self::Openmpi4 {
            variables.extend([
                ("FLUX_JOB_ID", "1".to_owned()),
                ("FLUX_PMI_LIBRARY_PATH", library.to_owned()),
                ("OMPI_MCA_orte_tmpdir_base", scratch.display().to_string()),
            ]);
        }
        match self {
            Self::Mpich | Self::Intelmpi => variables.extend([("MPI_LOCALRANKID", local), ("MPI_LOCALNRANKS", locals)]),
            Self::Openmpi4 | Self::Openmpi5 => variables.extend([
                ("OMPI_COMM_WORLD_RANK", number),
                ("OMPI_COMM_WORLD_SIZE", size),
                ("OMPI_COMM_WORLD_LOCAL_RANK", local),
                ("OMPI_COMM_WORLD_LOCAL_SIZE", locals),
            ]),
        }
        variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
