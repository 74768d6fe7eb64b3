//! Everything that will be measured, as a value: equal on every rank by construction.

mod order;
mod sweep;

pub use order::in_order;
pub use sweep::Sizes;

use crate::cli::Cli;
use crate::collective::Traits;
use crate::error::Error;
use crate::vocab::{Dtype, RedOp};

/// A type, reduction and root: one pass over the sizes, with its own warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series {
    /// Element type.
    pub dtype: Dtype,
    /// The reduction that is listed; `None` where the table says `none`.
    pub op: Option<RedOp>,
    /// The root; `None` where the table says -1.
    pub root: Option<u32>,
    /// Whether it was one of several that `all` stands for, so that it may be waived.
    pub from_all: bool,
}

impl Series {
    /// The redop column.
    pub fn label(&self) -> &'static str {
        self.op.map_or("none", RedOp::name)
    }

    /// The root column.
    pub fn root_column(&self) -> i64 {
        self.root.map_or(-1, i64::from)
    }
}

/// The types, reductions and roots of a sweep in nccl-tests' order: type, then reduction, then root.
pub fn series(cli: &Cli, traits: Traits, ranks: u32) -> Result<Vec<Series>, Error> {
    let dtypes = cli.dtype.choose(&Dtype::ALL);
    let ops = match (traits.lists_redop, cli.op) {
        (false, _) => vec![None],
        (true, op) => op.choose(&RedOp::ALL).into_iter().map(Some).collect(),
    };
    let roots = match (traits.rooted, cli.root) {
        (false, _) => vec![None],
        (true, -1) => (0..ranks).map(Some).collect(),
        (true, root) => {
            let root = u32::try_from(root).ok().filter(|root| *root < ranks);
            let root = root.ok_or_else(|| Error::Usage(format!("-r {} is no rank of {ranks}", cli.root)))?;
            vec![Some(root)]
        }
    };
    let from_all = cli.dtype.is_every() || (traits.reduces && cli.op.is_every());
    let mut all = Vec::with_capacity(dtypes.len() * ops.len() * roots.len());
    for dtype in dtypes {
        for &op in &ops {
            all.extend(roots.iter().map(|&root| Series { dtype, op, root, from_all }));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Parsed;
    use crate::collective::{ALL, Shares};

    fn of(name: &str, line: &str, ranks: u32) -> Result<Vec<Series>, Error> {
        let args = std::iter::once("x").chain(line.split_whitespace()).map(Into::into);
        let Ok(Parsed::Run(cli)) = Cli::read(args) else { panic!("{line}") };
        let entry = ALL.iter().find(|entry| entry.name == name).unwrap();
        series(&cli, (entry.build)(Shares::default()).traits(), ranks)
    }

    #[test]
    fn order_is_type_then_reduction_then_root() {
        let all = of("reduce", "-d all -o all -r -1", 3).unwrap();
        assert_eq!(all.len(), 12 * 6 * 3);
        assert_eq!((all[0].dtype, all[0].op, all[0].root), (Dtype::Int8, Some(RedOp::Sum), Some(0)));
        assert_eq!((all[3].dtype, all[3].op, all[3].root), (Dtype::Int8, Some(RedOp::Prod), Some(0)));
    }

    #[test]
    fn collectives_ignore_what_they_do_not_have() {
        assert_eq!(of("all_gather", "-o all -r 7", 2).unwrap().len(), 1);
        assert_eq!(of("sendrecv", "-o all", 2).unwrap().len(), 6, "as nccl-tests lists it");
        assert!(of("broadcast", "-r 2", 2).is_err());
    }
}
