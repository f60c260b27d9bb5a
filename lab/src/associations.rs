//! What a run found that opened associations, in place of calls.

use serde::{Deserialize, Serialize};

/// Associations or connections of one run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Associations {
    /// Open at the end, or, where the run looked for the most, before the first that was refused.
    pub held: u64,
    /// Why no more were opened, where the run looked for the most.
    pub refusal: String,
    /// Memory of the kernel by slab cache; empty where it could not be read.
    pub caches: Vec<Cache>,
    /// Growth of the memory of the server's process for each association, bytes.
    pub own_bytes: Option<f64>,
    /// Packets of the set-up and of the first request, in order; empty where none were captured.
    pub packets: Vec<Packet>,
    /// Times while more and more associations were open.
    pub curve: Vec<Point>,
}

/// What each association takes of a slab cache.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Cache {
    /// The name in /proc/slabinfo.
    pub name: String,
    /// Bytes of an object with what its alignment adds.
    pub size: u32,
    /// Objects of client and server for each association.
    pub both: f64,
    /// Objects of the server alone; nothing where that is not known.
    pub server: Option<f64>,
}

/// A kind of packet.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Packet {
    /// `s:` for what the client sends, `r:` for what it receives; then the kind.
    pub name: String,
    /// Median time since the packet before it, milliseconds.
    pub ms: f64,
    /// Associations that had it.
    pub seen: u64,
}

/// Medians while a number of associations was open.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Point {
    /// Associations that were open, the middle of this part of the run.
    pub held: u64,
    /// Set-up, milliseconds; nothing where the request is a part of it.
    pub connect: Option<f64>,
    /// Request to answer, milliseconds; nothing where the request is a part of the set-up.
    pub exchange: Option<f64>,
    /// From the beginning of the set-up to the answer, milliseconds.
    pub first_answer: Option<f64>,
}

impl Associations {
    /// Bytes of the kernel for each association at the server.
    pub fn slab(&self) -> Option<f64> {
        let bytes = |cache: &Cache| Some(cache.server? * f64::from(cache.size));
        let all: Option<Vec<f64>> = self.caches.iter().map(bytes).collect();
        all.filter(|all| !all.is_empty()).map(|all| all.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slab_needs_the_servers_part_of_every_cache() {
        let cache = |server| Cache { size: 100, both: 2.0, server, ..Cache::default() };
        let of = |caches| Associations { caches, ..Associations::default() }.slab();
        assert_eq!(of(vec![cache(Some(1.0)), cache(Some(0.5))]), Some(150.0));
        assert_eq!(of(vec![cache(Some(1.0)), cache(None)]), None);
        assert_eq!(of(Vec::new()), None);
    }
}
