//! Command lines as scripts write them.

use super::*;
use crate::vocab::{Corruption, Node, Point};

fn run(line: &str) -> Cli {
    match read(line) {
        Ok(Parsed::Run(cli)) => *cli,
        other => panic!("{line}: {other:?}"),
    }
}

fn read(line: &str) -> Result<Parsed<Box<Cli>>, Error> {
    Cli::read(std::iter::once("x_perf").chain(line.split_whitespace()).map(OsString::from))
}

#[test]
fn bare_command_line_has_the_defaults_of_nccl_tests() {
    let cli = run("");
    assert_eq!((cli.min_bytes, cli.max_bytes, cli.step_bytes), (32 << 20, 32 << 20, 1 << 20));
    assert_eq!((cli.iterations, cli.warmup, cli.checks, cli.average), (20, 1, 1, 1));
    assert_eq!(cli.not_supported_yet(), None);
}

#[test]
fn flags_read_as_scripts_write_them() {
    let cli = run("-b8 -e 1G -f 2 -g 1 -t 1 -n 0x10 -w 5 -c 1 -z 3 -d all -o all -r -1 -G 0 -a 3");
    assert_eq!((cli.min_bytes, cli.max_bytes, cli.iterations, cli.root), (8, 1 << 30, 16, -1));
    assert_eq!((cli.dtype, cli.op), (All::Every, All::Every));
    assert_eq!(run("-r all").root, -1);
    assert!((run("--minbytes 4 --maxbytes=64 --stepfactor 1.5").step_factor - 1.5).abs() < 1e-9);
    assert_eq!(run("--iter 7 --maxb 64M --warm 3 --agg 2").iterations, 7);
    assert_eq!(run("-n 3 -n 4").iterations, 4, "the last one counts");
    assert_eq!(run("-N 0").cycles, 0);
    assert_eq!(run("-J a.json --record=b").record, Some("b".into()));
}

#[test]
fn every_unambiguous_beginning_of_a_long_name_is_taken() {
    let names = Cli::long_names();
    for name in names.iter().filter(|name| *name != "help") {
        for cut in 1..=name.len() {
            let beginning = &name[..cut];
            let fits = names.iter().filter(|full| full.starts_with(beginning)).count();
            let expanded = expand_prefix(format!("--{beginning}").into(), &names);
            if fits == 1 {
                assert_eq!(expanded.to_str(), Some(format!("--{name}").as_str()), "{beginning}");
            }
        }
    }
}

#[test]
fn nonsense_is_a_usage_error() {
    for line in [
        "-b 0",
        "-b 8 -e 4",
        "-n abc",
        "-n 20abc",
        "-n 010",
        "-n -1",
        "-N -1",
        "-z 4",
        "-a 9",
        "-d flaot",
        "-o summ",
        "-q",
        "stray",
        "-f x",
        "-b 1Q",
        "-r -2",
        "-i 0 -b 1 -e 2",
        "--backend gpu",
        "-n 0",
        "--inject late",
        "-G 1 -z 1",
        "-G 1 -z 2",
        "-G 1 -y 1",
        "-G 1 --backend mpi",
        "-R 3",
        "-x 3",
        "-y 2",
        "-M 2",
        "--native sometimes",
        "--precision 1",
        "--budget 1h",
        "--order sorted",
        "--seed -1",
    ] {
        let error = read(line).expect_err(line);
        assert_eq!(error.exit(), crate::error::Exit::Usage, "{line}");
    }
}

fn read_matrix(line: &str) -> Result<Parsed<Box<Cli>>, Error> {
    let args = std::iter::once("p2p_matrix_perf").chain(line.split_whitespace());
    Cli::read_for(args.map(Into::into), true)
}

#[test]
fn a_matrix_refuses_what_it_has_not() {
    for line in [
        "--epochs 2",
        "-z G -I 1",
        "--inject corrupt:1:flipped",
        "--inject hang:1:0",
        "--inject stop:1:3",
        "--csv same --record same",
    ] {
        assert!(read_matrix(line).is_err_and(|error| error.exit() == crate::error::Exit::Usage), "{line}");
    }
    for (line, words) in [("--inject hang:1:init --inject late:1:1ms -z 3", 0), ("-n 7 -c 9 -C 1", 1)] {
        let Ok(Parsed::Run(mut cli)) = read_matrix(line) else { panic!("{line}") };
        let told = cli.settle();
        let of_sweep = told.iter().filter(|word| word.starts_with("p2p_matrix_perf has no sweep: "));
        assert_eq!((of_sweep.count(), cli.checks), (words, 0), "{line}: {told:?}");
    }
    let Ok(Parsed::Show(help)) = read_matrix("--help") else { panic!() };
    assert!(help.starts_with("Measures all pairs of ranks in one launch"), "{help}");
}

#[test]
fn no_two_outputs_are_one_file() {
    let said = |line: &str| read(line).map(|_| ()).map_err(|error| error.to_string());
    let text = said("-J a/./b --record a/b").unwrap_err();
    assert!(text.starts_with("-J and --record both name /") && text.contains("a/b"), "{text}");
    assert_eq!(said("-J a --record b"), Ok(()));
}

#[test]
fn a_fault_must_come_to_pass() {
    let said = |line: &str| read(line).map(|_| ()).map_err(|error| error.to_string());
    let beyond = "--inject hang:1:20: the timed loop has iterations 0 to 19";
    assert_eq!(said("--inject hang:1:20"), Err(beyond.to_owned()));
    assert!(said("--inject stop:1:2 -n 50 -G 2").is_err(), "launches count under -G");
    assert_eq!(said("--inject hang:1:19"), Ok(()));
}

#[test]
fn numbers_say_what_is_wrong_with_them() {
    for (line, words) in [
        ("-T 0.5", "'0.5' is not a whole number"),
        ("-T 05", "'05' has a leading zero"),
        ("--sim-seed 18446744073709551616", "is out of range"),
    ] {
        let text = read(line).unwrap_err().to_string();
        assert!(text.contains(words), "{line}: {text}");
    }
}

#[test]
fn help_is_no_error() {
    for line in ["-h", "--help", "--version"] {
        assert!(matches!(read(line), Ok(Parsed::Show(_))), "{line}");
    }
}

#[test]
fn odd_values_of_two_flags_are_put_aside_with_a_word() {
    for (line, words) in
        [("-I 2", 1), ("-I 1 -K 20", 1), ("-K 3", 1), ("-K -1 -I 1", 1), ("-I 1 -K 3", 0), ("", 0)]
    {
        let mut cli = run(line);
        assert_eq!(cli.settle().len(), words, "{line}");
        assert!(cli.per_iteration <= 1 && (0..20).contains(&cli.skip), "{line}");
    }
}

#[test]
fn what_a_graph_cannot_hold_is_put_aside_with_a_word() {
    for (line, words) in [("-G 2", 0), ("-G 2 -z 3", 1), ("-G 2 -I 1", 1), ("-G 2 -I 1 -z 3 -K 2", 3)] {
        let mut cli = run(line);
        assert_eq!(cli.settle().len(), words, "{line}");
        assert_eq!((cli.graph, cli.blocking, cli.per_iteration, cli.not_supported_yet()), (2, 0, 0, None));
    }
}

#[test]
fn what_only_nccl_has_is_put_aside_without_it() {
    let line = "-R 2 -x 1 -y 1 -M 1 --explain --native never";
    let mut cli = run(line);
    assert_eq!((cli.settle().len(), cli.register, cli.native), (0, 2, Native::Never));
    let mut cli = run(&format!("{line} --backend mpi"));
    assert_eq!((cli.settle().len(), cli.register, cli.memory, cli.cta_policy), (5, 0, 0, None));
    assert_eq!(run("-x -1").cta_policy, Some(-1));
    assert!(run("-D 1").not_supported_yet().is_some_and(|text| text.contains("DEVICE_API.md")));
}

#[test]
fn faults_survive_printing() {
    let points = [Point::Init, Point::Epoch(2), Point::Iteration(7)];
    let stuck =
        points.into_iter().flat_map(|at| [Inject::Hang { rank: 3, at }, Inject::Stop { rank: 3, at }]);
    let corrupt = Corruption::ALL.map(|how| Inject::Corrupt { rank: 3, how });
    let late = [1, 200_000, 1_500_000_000].map(|delay_ns| Inject::Late { rank: 3, delay_ns });
    let slow = [Node::Named("node-1.example".to_owned()), Node::Of(3)]
        .map(|node| Inject::SlowNode { node, lost_pct: 1 });
    let link = Inject::SlowLink { from: 3, to: 0, lost_pct: 90 };
    for fault in stuck.chain(corrupt).chain(late).chain(slow).chain([link]) {
        assert_eq!(fault.to_string().parse(), Ok(fault));
    }
}

#[test]
fn examples_of_faults_are_faults() {
    for text in Inject::examples() {
        let fault: Inject = text.parse().unwrap();
        assert_eq!(fault.ranks().last(), Some(&1), "{text}");
    }
}

#[test]
fn slow_links_and_nodes_lose_a_share() {
    for text in ["slow-link:0-1:10%", "slow-node:node-1:10%", "slow-node:7:90%"] {
        assert!(text.parse::<Inject>().is_ok_and(|fault| fault.lost_pct() >= Some(10)), "{text}");
    }
    for text in [
        "slow-link:0-1:0%",
        "slow-link:0-1:91%",
        "slow-link:0-1:10",
        "slow-link:0:10%",
        "slow-link:1-1:10%",
        "slow-link:a-b:10%",
        "slow-node::10%",
        "slow-node:a",
        "slow:0:10%",
    ] {
        assert!(text.parse::<Inject>().is_err(), "{text}");
    }
}

#[test]
fn what_a_backend_cannot_be_given_is_refused_with_what_it_can() {
    let refused = |line: &str| match read(line) {
        Err(error) => error.to_string(),
        Ok(_) => String::new(),
    };
    for fault in ["slow-link:0-1:10%", "slow-node:a:10%"] {
        let words = refused(&format!("--inject {fault}"));
        assert!(words.contains("NVLink") && words.contains("late, corrupt, hang and stop"), "{words}");
        assert!(refused(&format!("--backend mpi --inject {fault}")).is_empty());
    }
    for backend in ["nccl", "mpi"] {
        for how in Corruption::ALL {
            let words = refused(&format!("--backend {backend} --inject corrupt:0:{}", how.name()));
            assert_eq!(words.is_empty(), how == Corruption::Flipped, "{words}");
        }
    }
    assert!(refused("--backend sim --inject corrupt:0:lost").is_empty());
    assert!(refused("--backend sim --inject corrupt:0:lost -c 0").contains("-c 0"));
    let two = "--backend mpi --inject corrupt:0:flipped --inject corrupt:1:flipped";
    assert!(refused(two).contains("one rank at a time"));
    assert!(
        refused("--backend sim --inject slow-link:0-1:10% --inject slow-node:0:10%")
            .contains("one slow link")
    );
}

#[test]
fn lateness_is_a_time() {
    let late = |text: &str| format!("late:1:{text}").parse::<Inject>();
    for (text, delay_ns) in [("200us", 200_000), ("1.5ms", 1_500_000), ("2s", 2_000_000_000)] {
        assert_eq!(late(text), Ok(Inject::Late { rank: 1, delay_ns }));
    }
    for text in ["200", "us", "-1us", "0us", "nanus", "infs", "2h", "3601s"] {
        assert!(late(text).is_err(), "{text}");
    }
}

#[test]
fn what_ranks_must_meet_for_is_refused_where_they_do_not() {
    let refused = |line: &str| {
        let args = line.split_whitespace().map(OsString::from);
        matches!(Cli::read(std::iter::once("x".into()).chain(args)), Err(Error::Usage(_)))
    };
    let late = "--backend sim --inject late:1:5us";
    assert!(refused(late) && refused(&format!("{late} -z 2")));
    assert!(!refused(&format!("{late} -z 1")) && !refused(&format!("{late} -z 3")));
    assert!(refused("--overhead") && refused("--self-test -I 1") && refused("--self-test -z 3"));
    assert!(!refused("--overhead -I 1") && !refused("--self-test -I 1 -z 3"));
}

#[test]
fn epochs_have_an_end_and_their_faults_come_to_pass() {
    assert_eq!((run("").extent.epochs, run("--epochs 3 -N 2").extent.epochs), (1, 3));
    for line in
        ["--epochs 0", "--epochs 3 -N 0", "--inject hang:0:epoch1", "--epochs 2 --inject stop:1:epoch2"]
    {
        assert!(matches!(read(line), Err(Error::Usage(_))), "{line}");
    }
    run("--epochs 2 --inject hang:0:epoch1");
    run("--epochs 2 --inject hang:0:init --precision 1% --cold-start");
    assert!(matches!("hang:0:epoch".parse::<Inject>(), Err(text) if text.contains("epoch1")));
    let said = run("--epochs 2 --cold-start").settle().join("\n");
    assert!(said.contains("first epoch's communicator"), "{said}");
    assert_eq!(run("--cold-start").settle(), [] as [&str; 0]);
}
