//! Who may use a device: steps of several trainings side by side, or one network that is prepared and times its matmuls alone.
//!
//! What is chosen by timing decides the bits of every run, so it must not depend on who else trains meanwhile.

use std::sync::{Condvar, Mutex, MutexGuard};

/// The gate of one device, for the threads of one process.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Networks that have asked to be prepared, and those that have been: they take turns in that order, so that one of a short
    /// training does not wait behind all changes of shape of the long ones.
    asked: u64,
    prepared: u64,
    /// Whether the network that is being prepared keeps steps out.
    alone: bool,
    /// Trainings that are within some steps.
    stepping: usize,
}

/// While it lives, no other network is prepared.
pub(crate) struct Preparing<'a>(&'a Gate);

/// While it lives, no matmul is timed.
pub(crate) struct Stepping<'a>(&'a Gate);

impl Gate {
    /// Waits until it is this network's turn to be prepared.
    pub(crate) fn prepare(&self) -> Preparing<'_> {
        let mut state = self.lock();
        let turn = state.asked;
        state.asked += 1;
        drop(self.wait_while(state, |state| state.prepared != turn));
        Preparing(self)
    }

    /// Keeps steps out until the network that is being prepared is ready, once those that run have ended.
    pub(crate) fn be_alone(&self) {
        let mut state = self.lock();
        debug_assert!(state.asked > state.prepared, "only a network that is being prepared is alone");
        state.alone = state.asked > state.prepared; // else nobody would open the gate again
        drop(self.wait_while(state, |state| state.stepping > 0));
    }

    /// Waits until steps may run.
    pub(crate) fn step(&self) -> Stepping<'_> {
        let mut state = self.wait_while(self.lock(), |state| state.alone);
        state.stepping += 1;
        Stepping(self)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn wait_while<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        condition: impl Fn(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        self.changed.wait_while(state, |state| condition(state)).unwrap_or_else(|e| e.into_inner())
    }
}

impl Drop for Preparing<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.prepared += 1;
        state.alone = false;
        self.0.changed.notify_all();
    }
}

impl Drop for Stepping<'_> {
    fn drop(&mut self) {
        self.0.lock().stepping -= 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// Long enough that a thread that does not wait is caught.
    const A_WHILE: Duration = Duration::from_millis(30);

    #[test]
    fn steps_run_side_by_side_and_beside_a_network_that_times_nothing() {
        let gate = Gate::default();
        let first = gate.step();
        let preparing = gate.prepare();
        let second = gate.step();
        drop((first, preparing, second));
        assert_eq!(gate.lock().stepping, 0);
    }

    #[test]
    fn nothing_steps_while_a_network_is_alone() {
        let (gate, alone, steps) = (Gate::default(), AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _step = gate.step();
                        steps.fetch_add(1, SeqCst);
                        assert!(!alone.load(SeqCst));
                        thread::yield_now();
                        assert!(!alone.load(SeqCst));
                        steps.fetch_sub(1, SeqCst);
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let preparing = gate.prepare();
                        gate.be_alone();
                        gate.be_alone(); // every matmul asks
                        assert_eq!(steps.load(SeqCst), 0);
                        assert!(!alone.swap(true, SeqCst), "one at a time");
                        thread::yield_now();
                        assert_eq!(steps.load(SeqCst), 0);
                        alone.store(false, SeqCst);
                        drop(preparing);
                    }
                });
            }
        });
        let state = gate.lock();
        assert_eq!((state.asked, state.prepared, state.alone, state.stepping), (100, 100, false, 0));
    }

    #[test]
    fn networks_are_prepared_in_the_order_in_which_they_ask() {
        let (gate, order) = (Gate::default(), Mutex::new(Vec::new()));
        let first = gate.prepare();
        thread::scope(|scope| {
            for number in 0..4 {
                let (gate, order) = (&gate, &order);
                scope.spawn(move || {
                    let _preparing = gate.prepare();
                    order.lock().unwrap().push(number);
                });
                while gate.lock().asked < number + 2 {
                    thread::yield_now();
                }
            }
            thread::sleep(A_WHILE);
            assert!(order.lock().unwrap().is_empty(), "the first is not ready");
            drop(first);
        });
        assert_eq!(order.into_inner().unwrap(), [0, 1, 2, 3]);
    }

    #[test]
    fn a_training_that_panics_leaves_the_gate_open() {
        let gate = Gate::default();
        for alone in [false, true] {
            let panicked = thread::scope(|scope| {
                let fails = scope.spawn(|| {
                    let _preparing = gate.prepare();
                    if alone {
                        gate.be_alone();
                    }
                    let _step = (!alone).then(|| gate.step());
                    panic!("a device that fell off the bus");
                });
                fails.join().is_err()
            });
            assert!(panicked);
        }
        drop((gate.prepare(), gate.step()));
    }
}
