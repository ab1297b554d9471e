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

/// What threads share is plain memory on purpose: a mistake in handing it over is a race that ThreadSanitizer sees
/// (`scripts/sanitize thread`).
#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::Barrier;

    use super::*;

    fn pool(threads: usize) -> rayon::ThreadPool {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a few threads")
    }

    #[test]
    fn every_task_is_run_once_by_some_worker() {
        for threads in [1, 2, 7] {
            let (mut runs, mut taken, all) = (vec![0; 20_000], vec![0; threads], Barrier::new(threads));
            pool(threads).install(|| {
                run_queue(&mut taken, runs.iter_mut().enumerate(), |taken, (task, runs)| {
                    // Nobody goes on before every thread has a task, or one might do them all while others wake up. Then
                    // tasks are next to nothing: threads wait for the queue, and are interrupted now and then.
                    if task < threads {
                        all.wait();
                    } else if task % 50 == 0 {
                        std::thread::yield_now();
                    }
                    *taken += 1;
                    *runs += 1;
                });
            });
            assert!(runs.iter().all(|&runs| runs == 1), "on {threads} threads");
            assert!(taken.iter().all(|&taken| taken > 0) && taken.iter().sum::<usize>() == runs.len());
        }
    }

    #[test]
    fn more_workers_than_threads_or_tasks_do_no_harm() {
        for (workers, tasks) in [(9, 1000), (9, 4), (3, 0)] {
            let mut taken = vec![0; workers];
            pool(2).install(|| run_queue(&mut taken, 0..tasks, |taken, _| *taken += 1));
            assert_eq!(taken.iter().sum::<usize>(), tasks);
        }
        run_queue::<(), usize>(&mut [], [], |(), _| unreachable!("there is no task"));
    }

    #[test]
    fn tasks_may_have_queues_of_their_own() {
        let mut runs = vec![[0; 50]; 200];
        pool(4).install(|| {
            run_tasks(runs.iter_mut().collect(), |row| {
                run_tasks(row.iter_mut().collect(), |runs| *runs += 1);
            });
        });
        assert!(runs.as_flattened().iter().all(|&runs| runs == 1));
    }

    #[test]
    fn threads_outside_may_share_a_pool() {
        let pool = pool(3);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut runs = vec![0; 100];
                    for _ in 0..50 {
                        pool.install(|| on_pool(|| run_tasks(runs.iter_mut().collect(), |runs| *runs += 1)));
                    }
                    assert!(runs.iter().all(|&runs| runs == 50));
                });
            }
        });
    }

    /// As an interruption: without the message of a panic.
    fn unwind() {
        resume_unwind(Box::new("on purpose"));
    }

    #[test]
    fn a_task_that_panics_is_heard_after_the_others_are_done() {
        let (pool, mut taken) = (pool(4), vec![0; 4]);
        let mut run = |panics: fn(usize) -> bool| {
            taken.fill(0);
            let queue = |taken: &mut usize, task| {
                *taken += 1;
                if panics(task) {
                    unwind();
                }
            };
            let result =
                catch_unwind(AssertUnwindSafe(|| pool.install(|| run_queue(&mut taken, 0..1000, queue))));
            (result.is_err(), taken.iter().sum::<usize>())
        };
        for _ in 0..20 {
            assert_eq!(run(|task| task == 500), (true, 1000), "three workers go on");
            assert_eq!(run(|_| true), (true, 4), "no worker is left");
            assert_eq!(run(|_| false), (false, 1000), "the pool is as it was");
        }
    }

    #[test]
    fn a_queue_whose_tasks_cannot_be_made_ends() {
        let mut taken = vec![0; 4];
        let tasks = (0..1000).inspect(|&task| {
            if task % 100 == 99 {
                unwind();
            }
        });
        let run = || pool(4).install(|| run_queue(&mut taken, tasks, |taken, _| *taken += 1));
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        // Each of four workers ends with a panic, and takes what is there until then.
        assert_eq!(taken.iter().sum::<usize>(), 4 * 99);
    }

    #[test]
    fn a_pool_that_is_dropped_ends_its_queue_first() {
        for _ in 0..20 {
            let (send, receive) = std::sync::mpsc::channel();
            let pool = pool(3);
            pool.spawn(move || {
                let mut runs = vec![0; 2000];
                run_tasks(runs.iter_mut().collect(), |runs| *runs += 1);
                send.send(runs.iter().sum::<usize>()).expect("somebody listens");
            });
            drop(pool);
            assert_eq!(receive.recv(), Ok(2000));
        }
    }

    #[derive(Clone, Copy)]
    struct Unguarded(*mut usize);
    // SAFETY: none, which is the point.
    unsafe impl Send for Unguarded {}

    #[test]
    #[ignore = "a race on purpose, which ThreadSanitizer must report: `scripts/sanitize thread` runs it"]
    fn a_race() {
        let (mut count, both) = (0, Barrier::new(2));
        let tasks = vec![Unguarded(&raw mut count); 2];
        pool(2).install(|| {
            run_tasks(tasks, |Unguarded(count)| {
                both.wait(); // or one thread may be done before the other wakes up
                // SAFETY: none, which is the point.
                unsafe { *count += 1 };
            });
        });
    }
}
