//! Several watchdogs in one process, over real sockets.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Barrier, Mutex};

use super::*;

/// Ranks that are threads.
struct Team {
    rank: u32,
    shared: Arc<(Barrier, Mutex<Vec<Vec<u8>>>)>,
    aborted: Sender<(u32, Exit)>,
}

impl Control for Team {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.shared.1.lock().unwrap().len() as u32
    }

    fn barrier(&self) -> Result<()> {
        self.shared.0.wait();
        Ok(())
    }

    fn broadcast(&self, bytes: Vec<u8>) -> Result<Vec<u8>> {
        Ok(self.gather_all(&bytes).swap_remove(0))
    }

    fn gather(&self, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        Ok(Some(self.gather_all(bytes)).filter(|_| self.rank == 0))
    }

    fn vote(&self, value: u64) -> Result<u64> {
        Ok(value)
    }

    fn abort(&self) -> Abort {
        let (rank, aborted) = (self.rank, self.aborted.clone());
        Arc::new(move |exit| {
            let _ = aborted.send((rank, exit));
        })
    }
}

impl Team {
    fn gather_all(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.shared.1.lock().unwrap()[self.rank as usize] = bytes.to_vec();
        self.shared.0.wait();
        let all = self.shared.1.lock().unwrap().clone();
        self.shared.0.wait();
        all
    }
}

struct Job {
    members: Vec<(Watch, Progress, Abort)>,
    reports: Receiver<(u32, Failure)>,
    aborted: Receiver<(u32, Exit)>,
}

fn job(ranks: u32) -> Job {
    let shared = Arc::new((Barrier::new(ranks as usize), Mutex::new(vec![Vec::new(); ranks as usize])));
    let (report, reports) = channel();
    let (abort, aborted) = channel();
    let start = |rank: u32| {
        let team = Team { rank, shared: Arc::clone(&shared), aborted: abort.clone() };
        let report = report.clone();
        thread::spawn(move || {
            let sink: Sink = Arc::new(move |failure: &Failure| drop(report.send((rank, failure.clone()))));
            let progress = Progress::default();
            // Before the watchdog sleeps for the first time.
            progress.pace(Duration::from_millis(600));
            let who = Who { rank, host: "here".to_owned(), pid: 1000 + rank, device: String::new() };
            let watch = Watch::start(who.clone(), &progress, sink).unwrap();
            watch.connect(&team, &who, None).unwrap();
            progress.enter(Phase::Timed, Duration::from_mins(1));
            (watch, progress, team.abort())
        })
    };
    let threads: Vec<_> = (0..ranks).map(start).collect();
    let members = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    thread::sleep(Duration::from_millis(700));
    Job { members, reports, aborted }
}

#[test]
fn a_rank_behind_is_named_and_everybody_ends() {
    let job = job(3);
    for (rank, (_, progress, _)) in job.members.iter().enumerate() {
        progress.enter(Phase::Timed, Duration::from_millis(600));
        progress.size(64);
        progress.step(if rank == 1 { 4 } else { 5 });
    }
    let (rank, failure) = job.reports.recv_timeout(Duration::from_secs(5)).unwrap();
    assert_eq!((rank, failure.exit, failure.bytes), (0, Exit::Timeout, 64));
    assert_eq!(failure.culprits.iter().map(|one| one.rank).collect::<Vec<_>>(), [1], "{failure:?}");
    let mut ended: Vec<_> =
        (0..3).map(|_| job.aborted.recv_timeout(Duration::from_secs(8)).unwrap()).collect();
    ended.sort_unstable();
    assert_eq!(ended, [(0, Exit::Timeout), (1, Exit::Timeout), (2, Exit::Timeout)]);
    assert_eq!(job.reports.try_iter().count(), 0, "reported once");
}

#[test]
fn an_error_of_one_rank_ends_all_with_its_code() {
    let mut job = job(2);
    let (watch, _, abort) = job.members.remove(1);
    watch.fail(Exit::Library, "NCCL says no", &abort);
    let (rank, failure) = job.reports.recv_timeout(Duration::from_secs(3)).unwrap();
    assert_eq!((rank, failure.exit), (0, Exit::Library));
    assert!(failure.lines[1].contains("rank 1 (host here, pid 1001): NCCL says no"), "{failure:?}");
}

#[test]
fn an_orderly_end_says_nothing() {
    let job = job(3);
    // Rank 0 first: the others must not take that for a death.
    for (watch, progress, _) in job.members {
        progress.enter(Phase::Done, Duration::MAX);
        let start = Instant::now();
        watch.finish();
        assert!(start.elapsed() < Duration::from_millis(400));
    }
    assert_eq!(
        job.reports.recv_timeout(Duration::from_millis(800)).unwrap_err(),
        RecvTimeoutError::Disconnected
    );
    assert_eq!(job.aborted.try_iter().count(), 0);
}

#[test]
fn a_process_alone_reports_by_itself() {
    let (report, reports) = channel();
    let sink: Sink = Arc::new(move |failure: &Failure| drop(report.send(failure.clone())));
    let progress = Progress::default();
    // Before the watchdog sleeps for the first time.
    progress.pace(Duration::from_millis(600));
    let watch = Watch::start(Who::default(), &progress, sink).unwrap();
    let (abort, _aborted) = channel();
    let team =
        Team { rank: 0, shared: Arc::new((Barrier::new(1), Mutex::new(vec![Vec::new()]))), aborted: abort };
    watch.connect(&team, &Who::default(), Some("127.0.0.1")).unwrap();
    progress.enter(Phase::Setup, Duration::from_millis(10));
    let failure = reports.recv_timeout(Duration::from_secs(4)).unwrap();
    assert_eq!(failure.exit, Exit::Timeout);
    assert!(failure.cause.starts_with("not finished after 1 s"), "{}", failure.cause);
}

/// Rank 1, whose invitation leads to a listener that never answers.
struct Orphan {
    invitation: Vec<u8>,
    aborted: Sender<(u32, Exit)>,
}

impl Control for Orphan {
    fn rank(&self) -> u32 {
        1
    }

    fn size(&self) -> u32 {
        2
    }

    fn barrier(&self) -> Result<()> {
        Ok(())
    }

    fn broadcast(&self, _: Vec<u8>) -> Result<Vec<u8>> {
        Ok(self.invitation.clone())
    }

    fn gather(&self, _: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        Ok(None)
    }

    fn vote(&self, value: u64) -> Result<u64> {
        Ok(value)
    }

    fn abort(&self) -> Abort {
        let aborted = self.aborted.clone();
        Arc::new(move |exit| {
            let _ = aborted.send((1, exit));
        })
    }
}

/// What a process reports whose connection to rank 0 was never made; `act` is done once its watchdog knows that.
fn orphan(act: impl FnOnce(Watch, &Progress, &Abort)) -> (Option<Failure>, Duration) {
    let who = Who { rank: 0, host: "there".to_owned(), pid: 1000, device: String::new() };
    let (_listener, invitation) = net::invite(&who, Some("127.0.0.1")).unwrap();
    let (aborted, _ends) = channel();
    let orphan = Orphan { invitation: bytes(&invitation).unwrap(), aborted };
    let (report, reports) = channel();
    let sink: Sink = Arc::new(move |failure: &Failure| drop(report.send(failure.clone())));
    let progress = Progress::default();
    // Before the watchdog sleeps for the first time.
    progress.pace(Duration::from_millis(600));
    let me = Who { rank: 1, host: "here".to_owned(), pid: 1001, device: String::new() };
    let watch = Watch::start(me.clone(), &progress, sink).unwrap();
    watch.connect(&orphan, &me, None).unwrap();
    progress.enter(Phase::Timed, Duration::from_mins(1));
    // Longer than it waits for the answer.
    thread::sleep(Duration::from_millis(4500));
    let start = Instant::now();
    act(watch, &progress, &orphan.abort());
    (reports.recv_timeout(Duration::from_secs(10)).ok(), start.elapsed())
}

#[test]
fn a_rank_0_that_never_answered_is_named_at_the_deadline() {
    let mut kept = None;
    let (failure, took) = orphan(|watch, progress, _| {
        progress.enter(Phase::Timed, Duration::from_millis(10));
        kept = Some(watch);
    });
    let failure = failure.unwrap();
    assert_eq!((failure.exit, failure.culprits[0].rank), (Exit::Timeout, 0), "{failure:?}");
    assert!(failure.cause.contains("never answered") && failure.culprits[0].host == "there", "{failure:?}");
    assert!(took < Duration::from_secs(8), "{took:?}");
}

#[test]
fn an_error_counts_more_than_a_deadline_also_without_rank_0() {
    for past_deadline in [false, true] {
        let (failure, took) = orphan(|watch, progress, abort| {
            if past_deadline {
                progress.enter(Phase::Timed, Duration::from_millis(10));
                thread::sleep(Duration::from_millis(1500));
            }
            watch.fail(Exit::Library, "NCCL says no", abort);
        });
        let failure = failure.unwrap();
        assert_eq!(failure.exit, Exit::Library, "{failure:?}");
        assert!(failure.lines[1].contains("rank 1 (host here, pid 1001): NCCL says no"), "{failure:?}");
        assert!(took < Duration::from_secs(3), "{took:?}");
    }
}

#[test]
fn an_orderly_end_needs_no_rank_0() {
    let (failure, _) = orphan(|watch, progress, _| {
        progress.enter(Phase::Done, Duration::MAX);
        let start = Instant::now();
        watch.finish();
        assert!(start.elapsed() < Duration::from_millis(400));
    });
    assert_eq!(failure, None);
}
