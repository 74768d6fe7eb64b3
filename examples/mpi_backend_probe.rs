//! Runs every collective of the `mpi` backend, out of place and in place, over types, reductions and sizes, and
//! counts wrong elements: what the tests of the backend launch.
#![expect(clippy::print_stderr, clippy::print_stdout, reason = "a program")]

use std::process::ExitCode;

use critrank::backend::mpi::MpiHost;
use critrank::backend::{Backend, Setup};
use critrank::collective::{ALL, Case, Collective, Shares};
use critrank::error::{Error, Result};
use critrank::session::Control;
use critrank::session::launcher::Launch;
use critrank::session::mpi::{FLAVOUR, MpiWorld};
use critrank::verify::Pattern;
use critrank::vocab::{Dtype, Member, Placement, RedOp};

/// A case whose result is looked at before its call, to see that the check sees.
const SEEN: u64 = 9;
const SIZES: [u64; 5] = [0, 8, 1000, 65536, 1 << 20];

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(7),
        Err(error) => {
            eprintln!("mpi_backend_probe: {error}");
            ExitCode::from(error.exit().code())
        }
    }
}

fn run() -> Result<bool> {
    let launch = Launch::read(&|name| std::env::var(name).ok());
    let world = MpiWorld::init()?;
    launch.refuse_singletons(world.size(), FLAVOUR, world.version())?;
    let mut backend = MpiHost::new(&world)?;
    backend.allocate(16 << 20, 2)?;
    let (mut cases, mut wrong, mut repetition) = (0, 0, 0);
    if world.rank() == 0 {
        let pairs = Dtype::ALL.into_iter().flat_map(|dtype| RedOp::ALL.map(|op| (dtype, op)));
        for reason in pairs.filter_map(|(dtype, op)| backend.refuses(dtype, Some(op))) {
            println!("refused: {reason}");
        }
    }
    for entry in &ALL {
        let collective = (entry.build)(Shares::default());
        if collective.refuses(world.size()).is_some() {
            continue;
        }
        for dtype in Dtype::ALL {
            let ops: Vec<Option<RedOp>> =
                if collective.traits().reduces { RedOp::ALL.map(Some).to_vec() } else { vec![None] };
            for op in ops {
                if backend.refuses(dtype, op).is_some() {
                    continue;
                }
                for (bytes, placement) in
                    SIZES.into_iter().flat_map(|size| Placement::BOTH.map(|p| (size, p)))
                {
                    repetition += 1;
                    cases += 1;
                    let setup = Setup { dtype, op, placement, repetition };
                    let found = one(collective.as_ref(), &mut backend, &world, setup, bytes)?;
                    if found > 0 && world.rank() == 0 {
                        eprintln!("{} {dtype} {op:?} {bytes} B {placement:?}: {found} wrong", entry.name);
                    }
                    wrong += found;
                }
            }
        }
    }
    // Long control messages, and of unequal lengths.
    let mine = vec![world.rank() as u8; 1000 * world.rank() as usize];
    let all = world.all_gather(&mine)?;
    let right = world.vote(u64::MAX - u64::from(world.rank()))? == u64::MAX
        && all.iter().enumerate().all(|(rank, part)| *part == vec![rank as u8; 1000 * rank]);
    let memory = backend.memory()?;
    if world.rank() == 0 {
        println!(
            "mpi={} ranks={} cases={cases} wrong={wrong} control={right}",
            world.version(),
            world.size()
        );
        println!("free={} total={} library={:?}", memory.free_bytes, memory.total_bytes, backend.library());
    }
    backend.close()?;
    world.finalize()?;
    Ok(wrong == 0 && right)
}

fn one(
    collective: &dyn Collective,
    backend: &mut MpiHost,
    world: &MpiWorld,
    setup: Setup,
    bytes: u64,
) -> Result<u64> {
    let me = Member { rank: world.rank(), ranks: world.size() };
    let layout = collective.layout(bytes, setup.dtype, me);
    let exchange = collective.exchange(&layout, setup.dtype, me);
    let root = (setup.repetition / 2 % u64::from(me.ranks)) as u32;
    let (dtype, placement) = (setup.dtype, setup.placement);
    let case = Case { me, dtype, root, placement, shrinks_to_start: true, layout, exchange };
    let caps = backend.caps();
    let pattern = Pattern {
        dtype,
        op: setup.op,
        ranks: me.ranks,
        repetition: setup.repetition,
        arithmetic: caps.arithmetic,
    };
    backend.prepare(&setup)?;
    backend.shift(setup.repetition % 3 * dtype.bytes());
    backend.fill(&collective.after(&case), &pattern, true)?;
    backend.fill(&collective.before(&case), &pattern, false)?;
    if setup.repetition == SEEN && backend.check(&collective.after(&case), &pattern)?.wrong() == 0 {
        return Err(Error::Setup("a call that was not made passes the check".to_owned()));
    }
    world.barrier()?;
    for round in 0..collective.rounds(me.ranks) {
        collective.launch(&case, round, backend)?;
    }
    if placement == Placement::InPlace && !collective.traits().checks_in_place {
        return world.vote(0);
    }
    let wrong = backend.check(&collective.after(&case), &pattern)?.wrong();
    let bad = backend.bad(&collective.after(&case), &pattern, false, 3)?;
    world.vote(wrong.max(u64::from(wrong == 0 && !bad.is_empty())))
}
