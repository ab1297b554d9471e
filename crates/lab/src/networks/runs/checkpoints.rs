//! When checkpoints are taken, and the thread that writes them while training goes on.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use engine::model::checkpoint;
use engine::model::optim::OptimiserState;
use engine::model::parameters::ParamLayout;

use crate::error::{Error, Result};

/// When a run saves a checkpoint, beside the end and a request to stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CheckpointEvery {
    /// So much time after the last one, longer where saving would cost more than a hundredth of it.
    Seconds(f64),
    /// Whenever the step is a multiple.
    Steps(u64),
}

impl Default for CheckpointEvery {
    /// Half a minute is little to lose, and enough to write in.
    fn default() -> CheckpointEvery {
        CheckpointEvery::Seconds(30.0)
    }
}

impl FromStr for CheckpointEvery {
    type Err = String;

    /// `30s`, `5min`, or a number of steps.
    fn from_str(text: &str) -> Result<CheckpointEvery, String> {
        let seconds = |number: &str, unit: f64| {
            let number: f64 = number.trim().parse().ok()?;
            (number > 0.0 && number.is_finite()).then_some(CheckpointEvery::Seconds(number * unit))
        };
        let parsed = match text.strip_suffix("min") {
            Some(minutes) => seconds(minutes, 60.0),
            None => match text.strip_suffix('s') {
                Some(number) => seconds(number, 1.0),
                None => text.parse().ok().filter(|steps| *steps > 0).map(CheckpointEvery::Steps),
            },
        };
        parsed
            .ok_or_else(|| format!("'{text}'; accepted: seconds (30s), minutes (5min), or a number of steps"))
    }
}

impl fmt::Display for CheckpointEvery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckpointEvery::Seconds(seconds) => write!(f, "{seconds}s"),
            CheckpointEvery::Steps(steps) => write!(f, "{steps}"),
        }
    }
}

/// Training may wait for checkpoints this share of its time.
const SHARE: f64 = 0.01;

/// Tells when the next checkpoint is due.
pub(super) struct Clock {
    every: CheckpointEvery,
    last: Instant,
    /// What the last one cost, in seconds of the whole machine.
    cost: f64,
}

impl Clock {
    pub fn new(every: CheckpointEvery) -> Clock {
        Clock { every, last: Instant::now(), cost: 0.0 }
    }

    /// The multiples of steps at which training has to pause.
    pub fn steps(&self) -> Option<u64> {
        match self.every {
            CheckpointEvery::Steps(steps) => Some(steps),
            CheckpointEvery::Seconds(_) => None,
        }
    }

    /// Whether a checkpoint should be taken after a step; by the clock only while none is being written.
    pub fn due(&self, step: u64, writer: &Writer) -> bool {
        match self.every {
            CheckpointEvery::Steps(steps) => step.is_multiple_of(steps),
            CheckpointEvery::Seconds(seconds) => {
                let pause = seconds.max((self.cost + writer.cost()) / SHARE);
                self.last.elapsed().as_secs_f64() >= pause && writer.is_idle()
            }
        }
    }

    /// A checkpoint was taken, for which training waited since `begun`.
    pub fn taken(&mut self, begun: Instant) {
        self.cost = begun.elapsed().as_secs_f64();
        self.last = Instant::now();
    }
}

/// Everything that a file needs, apart from the network in training.
pub(super) struct Snapshot {
    pub path: PathBuf,
    pub layout: ParamLayout,
    pub params: Vec<f32>,
    /// Absent where weights alone are kept.
    pub optimiser: Option<OptimiserState>,
    pub metadata: BTreeMap<String, String>,
    /// Rows of metrics, made safe before a checkpoint counts on them.
    pub metrics: File,
}

impl Snapshot {
    fn write(&self) -> Result<()> {
        self.metrics.sync_data().map_err(Error::file("write", &self.path))?;
        Ok(checkpoint::save(&self.path, &self.layout, &self.params, self.optimiser.as_ref(), &self.metadata)?)
    }
}

/// A thread that writes snapshots one after the other, each whole or not at all.
///
/// Dropped, it ends after what it was given: a run is not unlocked while its files are being written.
pub(super) struct Writer {
    queue: Option<SyncSender<Snapshot>>,
    thread: Option<JoinHandle<Result<()>>>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    waiting: usize,
    /// Time of the last write.
    last: Duration,
}

impl Writer {
    pub fn start() -> Writer {
        // One snapshot waits while another is written: memory for three at most, that in training included.
        let (queue, snapshots) = sync_channel(1);
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        let thread = std::thread::spawn(move || write_all(&snapshots, &shared));
        Writer { queue: Some(queue), thread: Some(thread), state }
    }

    /// Whether nothing is left to write.
    pub fn is_idle(&self) -> bool {
        lock(&self.state).waiting == 0
    }

    /// Seconds of the whole machine that the last write took: it keeps one core busy at most.
    fn cost(&self) -> f64 {
        lock(&self.state).last.as_secs_f64() / rayon::current_num_threads() as f64
    }

    /// Hands a snapshot over; waits only while two others are on their way.
    pub fn write(&mut self, snapshot: Snapshot) -> Result<()> {
        lock(&self.state).waiting += 1;
        let sent = self.queue.as_ref().is_some_and(|queue| queue.send(snapshot).is_ok());
        if sent { Ok(()) } else { self.finish() }
    }

    /// The error of a write that failed, as soon as it did.
    pub fn check(&mut self) -> Result<()> {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) { self.finish() } else { Ok(()) }
    }

    /// Waits until everything is written.
    pub fn finish(&mut self) -> Result<()> {
        self.queue = None;
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let failed =
            || Error::Training("checkpoints could not be written; that is a mistake in iclab".into());
        thread.join().unwrap_or_else(|_| Err(failed()))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

fn write_all(snapshots: &Receiver<Snapshot>, state: &Mutex<State>) -> Result<()> {
    for snapshot in snapshots {
        let begun = Instant::now();
        snapshot.write()?;
        let mut state = lock(state);
        state.waiting -= 1;
        state.last = begun.elapsed();
    }
    Ok(())
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(|e| e.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::model::optim::adam::AdamConfig;
    use engine::model::parameters::{Init, ParamSpec};

    #[test]
    fn times_and_steps_are_read_and_nonsense_is_named() {
        for (text, every) in [
            ("30s", CheckpointEvery::Seconds(30.0)),
            ("0.5s", CheckpointEvery::Seconds(0.5)),
            ("5min", CheckpointEvery::Seconds(300.0)),
            ("1000", CheckpointEvery::Steps(1000)),
        ] {
            assert_eq!(text.parse(), Ok(every));
            assert_eq!(every.to_string().parse(), Ok(every));
        }
        for text in ["", "s", "0", "-1s", "nans", "infs", "0s", "3h", "1.5"] {
            let error = text.parse::<CheckpointEvery>().unwrap_err();
            assert!(error.contains("accepted: seconds (30s)"), "{error}");
        }
    }

    fn snapshot(path: PathBuf, value: f32) -> Snapshot {
        let init = Init::Constant(0.0);
        let layout = ParamLayout::new(vec![ParamSpec { name: "w".into(), shape: vec![2], init }]);
        let config = AdamConfig { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 };
        let optimiser = Some(OptimiserState { step: 3, ..OptimiserState::new(config, 2) });
        let metrics = tempfile::tempfile().unwrap();
        Snapshot { path, layout, params: vec![value; 2], optimiser, metadata: BTreeMap::new(), metrics }
    }

    #[test]
    fn snapshots_are_written_in_order_and_a_failure_is_heard() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("checkpoint.safetensors");
        let mut writer = Writer::start();
        for value in [1.0, 2.0, 3.0] {
            writer.write(snapshot(path.clone(), value)).unwrap();
        }
        writer.finish().unwrap();
        let read = checkpoint::load(&path, &snapshot(path.clone(), 0.0).layout).unwrap();
        assert_eq!((read.params, read.optimiser.unwrap().step), (vec![3.0; 2], 3));

        let mut writer = Writer::start();
        let nowhere = dir.path().join("absent").join("checkpoint.safetensors");
        writer.write(snapshot(nowhere, 1.0)).unwrap();
        let error = std::iter::repeat_with(|| writer.check()).find_map(Result::err).unwrap();
        assert!(error.to_string().contains("absent"), "{error}");
    }

    #[test]
    fn a_writer_that_is_dropped_writes_what_it_was_given() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("checkpoint.safetensors");
        for round in 0..20 {
            let mut writer = Writer::start();
            for value in [1.0, 2.0, 3.0] {
                writer.write(snapshot(path.clone(), round as f32 + value)).unwrap();
            }
            drop(writer);
            let read = checkpoint::load(&path, &snapshot(path.clone(), 0.0).layout).unwrap();
            assert_eq!(read.params, [round as f32 + 3.0; 2]);
        }
    }

    #[test]
    fn by_the_clock_a_checkpoint_waits_for_its_time_and_for_the_writer() {
        let writer = Writer::start();
        let mut clock = Clock::new(CheckpointEvery::Seconds(1e-9));
        std::thread::sleep(Duration::from_millis(1));
        assert!(clock.due(1, &writer));
        lock(&writer.state).waiting = 1;
        assert!(!clock.due(1, &writer), "another is being written");
        lock(&writer.state).waiting = 0;
        clock.cost = 1e6;
        assert!(!clock.due(1, &writer), "a hundredth of the time is the most");
        assert!(!Clock::new(CheckpointEvery::Seconds(1e6)).due(1, &writer));
        let steps = Clock::new(CheckpointEvery::Steps(7));
        assert_eq!([6, 7, 8, 14].map(|step| steps.due(step, &writer)), [false, true, false, true]);
    }
}
