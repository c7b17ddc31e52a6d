//! Link layers: InfiniBand and Ethernet.

use std::fmt;

/// Protocol that carries packets from port to port. The default is `Infiniband`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum LinkLayer {
    /// InfiniBand: LIDs, virtual lanes and credits.
    #[default]
    Infiniband,
    /// Ethernet: RoCE v2 (IBTA annex A17), with IP addresses, priorities and pause frames.
    Ethernet,
}

impl LinkLayer {
    /// All link layers.
    pub const ALL: [Self; 2] = [Self::Infiniband, Self::Ethernet];

    /// Returns the name that fabric files use: `infiniband` or `ethernet`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Infiniband => "infiniband",
            Self::Ethernet => "ethernet",
        }
    }

    /// Returns the link layer of that [`name`](Self::name), or `None` for any other text. Case
    /// matters.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layer| layer.name() == text)
    }
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Infiniband => "InfiniBand",
            Self::Ethernet => "Ethernet",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        assert_eq!(LinkLayer::ALL.map(|layer| LinkLayer::parse(layer.name())), LinkLayer::ALL.map(Some));
    }
}
