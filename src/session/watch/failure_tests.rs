use super::*;

fn row(rank: u32, step: u64) -> Row {
    let stand = Stand {
        phase: Phase::Timed,
        bytes: 1 << 20,
        step,
        sequence: 9,
        in_phase_ms: 61_000,
        limit_ms: 60_000,
        thread: 'R',
    };
    let who = Who { rank, host: format!("node{}", rank / 2), pid: 100 + rank, device: "HOST".to_owned() };
    Row { who, stand, link: Link::Answers, moves: false }
}

fn deadline(rows: &[Row]) -> Failure {
    let failure = judge(&Cause::Deadline { rank: 1, stand: rows[1].stand }, rows);
    for line in failure.lines.iter().chain([&failure.cause]) {
        for word in [" on ", "bandwidth", "FAILED", "Avg bus", "Test failure"] {
            assert!(!line.contains(word), "{line}");
        }
    }
    failure
}

fn ranks(failure: &Failure) -> Vec<u32> {
    failure.culprits.iter().map(|culprit| culprit.rank).collect()
}

#[test]
fn a_stopped_rank_is_named() {
    let mut rows: Vec<_> = (0..4).map(|rank| row(rank, 58)).collect();
    rows[2].link = Link::Silent { ms: 2100 };
    rows[2].stand.step = 40;
    let failure = deadline(&rows);
    assert_eq!((failure.exit, ranks(&failure)), (Exit::Timeout, vec![2]));
    assert_eq!((failure.phase, failure.bytes, failure.iteration), (Phase::Timed, 1 << 20, 58));
    assert!(failure.lines[1].contains("rank 2 (host node1, pid 102, HOST): silent for 2.1 s"));
    assert!(failure.lines[1].contains("size 1048576 B, iteration 40"));
    assert!(failure.lines[2].contains("ranks 0-1,3: in the timed loop"), "{:?}", failure.lines);
}

#[test]
fn two_behind_are_named_in_rank_order() {
    let rows: Vec<_> =
        [58, 57, 58, 57, 58].into_iter().zip(0..).map(|(step, rank)| row(rank, step)).collect();
    let failure = deadline(&rows);
    assert_eq!(ranks(&failure), [1, 3]);
    assert!(failure.cause.ends_with("2 ranks are behind 3 others"), "{}", failure.cause);
}

#[test]
fn an_earlier_row_is_behind_whatever_its_phase_is_called() {
    let mut rows: Vec<_> = (0..3).map(|rank| row(rank, 3)).collect();
    rows[0].stand = Stand { phase: Phase::Check, sequence: 8, step: 0, ..rows[0].stand };
    let failure = deadline(&rows);
    assert_eq!(ranks(&failure), [0]);
    assert!(failure.lines[1].contains("in the data check"));
}

#[test]
fn when_all_stand_alike_nobody_is_blamed() {
    let rows: Vec<_> = (0..3).map(|rank| row(rank, 58)).collect();
    let failure = deadline(&rows);
    assert!(failure.culprits.is_empty());
    assert!(failure.cause.contains("nobody is to blame"), "{}", failure.cause);
    assert!(failure.lines[1].contains("ranks 0-2"));
}

#[test]
fn who_moves_is_slow_and_not_to_blame() {
    let mut rows: Vec<_> = [58, 40, 57].into_iter().zip(0..).map(|(step, rank)| row(rank, step)).collect();
    for row in &mut rows {
        row.moves = true;
    }
    let failure = deadline(&rows);
    assert!(failure.culprits.is_empty(), "{failure:?}");
    assert!(failure.cause.ends_with("still move: it takes longer than the deadline, which -T SECONDS sets"));
    // One that stands is what the others will wait for, wherever they are now.
    rows[2].moves = false;
    let failure = deadline(&rows);
    assert_eq!(ranks(&failure), [2]);
    assert!(failure.cause.ends_with("1 rank is stuck while 2 others move"), "{}", failure.cause);
}

#[test]
fn alike_but_for_one_stuck_thread() {
    let mut rows: Vec<_> = (0..3).map(|rank| row(rank, 58)).collect();
    rows[0].stand.thread = 'S';
    assert!(deadline(&rows).culprits.is_empty(), "a sleeping thread may wait in a library");
    rows[2].stand.thread = 'D';
    let failure = deadline(&rows);
    assert_eq!(ranks(&failure), [2]);
    assert!(failure.lines[1].contains("differs: ") && failure.lines[1].contains("inside the kernel"));
}

#[test]
fn deaths_errors_and_signals_have_their_codes() {
    let mut rows: Vec<_> = (0..3).map(|rank| row(rank, 5)).collect();
    rows[1].link = Link::Broken { ms: 1200 };
    let failure = judge(&Cause::Broken, &rows);
    assert_eq!((failure.exit, ranks(&failure)), (Exit::Died, vec![1]));
    assert!(failure.cause.starts_with("rank 1 died"));

    let reports = vec![Report { rank: 2, exit: Exit::Library, text: "NCCL failure".to_owned() }];
    let failure = judge(&Cause::Reported(reports), &rows);
    assert_eq!((failure.exit, ranks(&failure)), (Exit::Library, vec![2]));

    let failure = judge(&Cause::Overruled { by: 2, exit: Exit::Timeout }, &rows);
    assert_eq!((failure.exit, ranks(&failure)), (Exit::Timeout, vec![0]));
    assert!(failure.cause.ends_with("rank 2 ended the job"));

    let failure = judge(&Cause::Signal { rank: 0, name: "SIGTERM".to_owned() }, &rows);
    assert_eq!(failure.exit, Exit::Died);
    assert!(failure.cause.contains("ended by signal SIGTERM"));
}

#[test]
fn long_lists_are_cut_with_a_count() {
    let rows: Vec<_> = (0..100).map(|rank| row(rank, u64::from(rank >= 40))).collect();
    let failure = deadline(&rows);
    assert_eq!(failure.culprits.len(), 16);
    assert!(failure.lines.iter().any(|line| line.contains("and 24 more ranks")));
}

#[test]
fn a_record_gives_it_back() {
    let rows: Vec<_> = (0..3).map(|rank| row(rank, u64::from(rank))).collect();
    let failure = deadline(&rows);
    let text = serde_json::to_string(&failure).unwrap();
    assert!(text.starts_with(r#"{"exit":4,"phase":"timed""#), "{text}");
    assert_eq!(serde_json::from_str::<Failure>(&text).unwrap(), failure);
}
