//! One walk over every collective there is or will be.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;

fn case(coll: &dyn Collective, bytes: u64, dtype: Dtype, me: Member, placement: Placement) -> Case {
    let layout = coll.layout(bytes, dtype, me);
    let exchange = coll.exchange(&layout, dtype, me);
    Case { me, dtype, root: me.ranks - 1, placement, shrinks_to_start: false, layout, exchange }
}

fn within(content: &Content, side: Side, span: u64, what: &str) {
    for run in content {
        assert!(run.at.side != side || run.at.offset + run.count <= span, "{what}: {run:?} beyond {span}");
    }
}

#[test]
fn every_collective_keeps_its_buffers() {
    for entry in &ALL {
        let coll = (entry.build)(Shares::default());
        for ranks in (1..=9).filter(|ranks| coll.refuses(*ranks).is_none()) {
            for rank in 0..ranks {
                let me = Member { rank, ranks };
                for bytes in [0, 1, 8, 100, 1024, 1_000_000] {
                    for placement in Placement::BOTH {
                        let case = case(&*coll, bytes, Dtype::Float, me, placement);
                        let what = format!("{} {bytes} B rank {rank} of {ranks} {placement:?}", coll.name());
                        assert!(case.layout.span() * 4 <= bytes, "{what}: {:?}", case.layout);
                        for content in [coll.before(&case), coll.after(&case)] {
                            within(&content, Side::Send, case.layout.send, &what);
                            within(&content, Side::Recv, case.layout.span(), &what);
                        }
                        assert!(
                            coll.before(&case).iter().all(|run| run.at.side == case.input().side),
                            "{what}"
                        );
                        assert!(coll.after(&case).iter().all(|run| run.at.side == Side::Recv), "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn every_collective_is_listed_once_and_has_its_binary() {
    let mut seen = BTreeSet::new();
    for entry in &ALL {
        let coll = (entry.build)(Shares::default());
        assert_eq!(coll.name(), entry.name);
        assert!(seen.insert(entry.name), "{} is listed twice", entry.name);
        let binary = format!("{}/src/bin/{}_perf.rs", env!("CARGO_MANIFEST_DIR"), entry.name);
        assert!(Path::new(&binary).exists(), "{binary} is missing");
    }
    let binaries = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin")).unwrap();
    let drop_ins = binaries.filter(|file| {
        let name = file.as_ref().unwrap().file_name();
        let name = name.to_string_lossy();
        name.ends_with("_perf.rs") && name != "p2p_matrix_perf.rs"
    });
    assert_eq!(drop_ins.count(), ALL.len(), "a binary has no collective");
}

/// Sizes and bandwidths that nccl-tests 2.19.6 printed: (name, ranks, bytes asked, time in us, size, count, busbw).
#[test]
fn sizes_and_bandwidths_are_those_of_nccl_tests() {
    let golden = [
        ("all_reduce", 2, 134_217_728, 472.08, 134_217_728, 33_554_432, 284.31),
        ("all_gather", 2, 1 << 30, 2970.94, 1 << 30, 134_217_728, 180.71),
        ("broadcast", 2, 1 << 30, 2970.94, 1 << 30, 268_435_456, 361.41),
        ("alltoallv", 4, 8 << 20, 13694.4, 8_388_592, 524_288, 0.459),
        ("hypercube", 4, 8 << 20, 9917.27, 8 << 20, 524_288, 0.634),
    ];
    for (name, ranks, bytes, time_us, size, count, busbw_gbps) in golden {
        let entry = ALL.iter().find(|entry| entry.name == name).unwrap();
        let coll = (entry.build)(Shares::default());
        let case = case(&*coll, bytes, Dtype::Float, Member { rank: 0, ranks }, Placement::OutOfPlace);
        assert_eq!((case.layout.span() * 4, case.layout.count), (size, count), "{name}");
        let traffic = coll.traffic(&case);
        let busbw = traffic.bytes as f64 / 1e3 / time_us * traffic.bus_factor;
        assert!((busbw - busbw_gbps).abs() < 0.01, "{name}: {busbw}");
    }
}

#[test]
fn one_rank_moves_nothing_over_the_bus_where_all_blocks_are_its_own() {
    for entry in &ALL {
        let coll = (entry.build)(Shares::default());
        for ranks in 1..=9 {
            let case = case(&*coll, 1 << 20, Dtype::Float, Member { rank: 0, ranks }, Placement::OutOfPlace);
            let factor = coll.traffic(&case).bus_factor;
            assert!((0.0..=2.0).contains(&factor), "{}: {factor}", entry.name);
        }
    }
}

/// Counts what NCCL has as one call, and all else that moves data between ranks.
#[derive(Default)]
struct Counter {
    own: u32,
    other: u32,
}

impl Ops for Counter {
    fn rank(&self) -> u32 {
        1
    }
    fn ranks(&self) -> u32 {
        4
    }
    fn all_reduce(&mut self, _: Slot, _: Slot, _: u64) -> Result<()> {
        self.own += 1;
        Ok(())
    }
    fn all_gather(&mut self, _: Slot, _: Slot, _: u64) -> Result<()> {
        self.own += 1;
        Ok(())
    }
    fn reduce_scatter(&mut self, _: Slot, _: Slot, _: u64) -> Result<()> {
        self.own += 1;
        Ok(())
    }
    fn broadcast(&mut self, _: Slot, _: Slot, _: u64, _: u32) -> Result<()> {
        self.own += 1;
        Ok(())
    }
    fn reduce(&mut self, _: Slot, _: Slot, _: u64, _: u32) -> Result<()> {
        self.own += 1;
        Ok(())
    }
    fn send(&mut self, _: Slot, _: u64, _: u32) -> Result<()> {
        self.other += 1;
        Ok(())
    }
    fn recv(&mut self, _: Slot, _: u64, _: u32) -> Result<()> {
        self.other += 1;
        Ok(())
    }
    fn copy(&mut self, _: Slot, _: Slot, _: u64) -> Result<()> {
        Ok(())
    }
    fn group_start(&mut self) -> Result<()> {
        Ok(())
    }
    fn group_end(&mut self) -> Result<()> {
        Ok(())
    }
}

/// NCCL's estimate may be asked for where this is so, and only there: simulated sends would stay queued.
#[test]
fn what_is_one_call_makes_one() {
    for entry in &ALL {
        let coll = (entry.build)(Shares::default());
        let mut counter = Counter::default();
        for round in 0..coll.rounds(4) {
            let case =
                case(&*coll, 1 << 20, Dtype::Float, Member { rank: 1, ranks: 4 }, Placement::OutOfPlace);
            coll.launch(&case, round, &mut counter).unwrap();
        }
        let is_one_call = counter.own == 1 && counter.other == 0;
        assert_eq!(coll.traits().one_call, is_one_call, "{}", entry.name);
    }
}
