//! A queue of tasks that all threads take from.

use std::sync::Mutex;

/// Runs work with many parallel parts on a thread of the pool: a thread outside would go to sleep and be woken up again for
/// each of them.
pub fn on_pool<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    rayon::scope(|_| work())
}

/// Runs tasks in order, each on the thread that is free next; every thread has a worker.
pub(crate) fn run_queue<W: Send, T: Send>(
    workers: &mut [W],
    tasks: impl IntoIterator<Item = T, IntoIter: Send>,
    work: impl Fn(&mut W, T) + Sync,
) {
    let tasks = Mutex::new(tasks.into_iter());
    let run = |worker: &mut W| {
        loop {
            let Some(task) = tasks.lock().unwrap_or_else(|e| e.into_inner()).next() else { break };
            work(worker, task);
        }
    };
    match workers {
        [worker] => run(worker),
        workers => rayon::scope(|scope| workers.iter_mut().for_each(|worker| scope.spawn(|_| run(worker)))),
    }
}

/// As [`run_queue`], on all threads.
pub(crate) fn run_tasks<T: Send>(tasks: Vec<T>, work: impl Fn(T) + Sync) {
    let threads = rayon::current_num_threads().min(tasks.len());
    run_queue(&mut vec![(); threads], tasks, |(), task| work(task));
}
