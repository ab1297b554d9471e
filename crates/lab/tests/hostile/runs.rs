//! Cards, metrics, directories of runs, what SLURM says, and kept findings.

use std::path::Path;

use engine::hash::checksum;
use hostile::{Cost, Random, Reader, check, check_file};

use crate::{COST, TINY, bent, folder, reader, said, tiny};
use lab::analyses::reproduction::{Cache, Digests};
use lab::data::seed::Seed;
use lab::findings::{
    Axis, Bound, Claim, Figure, Findings, HeatmapPanel, Kind, LinesPanel, Panel, Series, Table,
};
use lab::networks::models::{Card, Evaluation, FileRecord, Models};
use lab::networks::runs::{self, Metrics, RunResult, read_metrics};
use lab::networks::sweeps::slurm;

#[test]
fn cards() {
    hostile::alone!();
    let dir = folder();
    std::fs::write(dir.path().join("plan.toml"), TINY).unwrap();
    let evaluation =
        Evaluation { prompts: 8, mean_loss: [1.0, 0.9, 1.1], last_error_over_d: [0.1, 0.05, 0.2] };
    let card = Card {
        name: "r1".into(),
        about: "a network".into(),
        experiment: "tiny".into(),
        steps: 400,
        steps_asked: Some(500),
        seconds: 1.5,
        remark: "None.".into(),
        evaluation: Some(evaluation),
        files: [("plan.toml".to_string(), FileRecord::of(TINY.as_bytes()))].into(),
        ..Card::default()
    };
    let texts = [toml::to_string(&card).unwrap().into_bytes()];
    let read = |_: &Path| {
        let card = Card::read(dir.path()).map_err(said)?;
        card.text();
        card.verify(dir.path()).map_err(said)
    };
    let path = dir.path().join(Card::FILE);
    let reader = reader("card", dir.path().to_str().unwrap());
    check_file(&reader, &path, |random| bent(random, &texts), read);
}

fn rows() -> Vec<u8> {
    let row = |i: u64| Metrics {
        step: 7 * i,
        loss: 1.0 / i as f64,
        excess: i.is_multiple_of(2).then_some(0.5),
        norm: 0.1,
        rate: 1e-3,
        dims: 3,
        points: 6,
        seconds: i as f64,
    };
    let line = |i| serde_json::to_string(&row(i)).unwrap() + "\n";
    (1..9).map(line).collect::<String>().into_bytes()
}

#[test]
fn rows_of_metrics() {
    hostile::alone!();
    let dir = folder();
    let texts = [rows()];
    let read = |_: &Path| {
        let found = read_metrics(dir.path()).map_err(said)?;
        assert!(found.iter().all(|row| row.loss.is_finite() && row.seconds.is_finite()));
        Ok(())
    };
    let path = dir.path().join("metrics.jsonl");
    check_file(&reader("metrics", "metrics.jsonl"), &path, |random| bent(random, &texts), read);
}

#[test]
fn directories_of_runs() {
    hostile::alone!();
    let root = folder();
    let dir = root.path().join("tiny-0123456789abcdef");
    std::fs::create_dir(&dir).unwrap();
    let network = tiny().network.build(3, 6).unwrap();
    let layout = network.layout();
    let params = layout.initial(&Seed(1));
    let about = [("step", "77"), ("device", "cpu"), ("experiment", TINY)];
    let about = about.map(|(key, value)| (key.to_string(), value.to_string())).into();
    engine::model::checkpoint::save(&dir.join(runs::CHECKPOINT), &layout, &params, None, &about).unwrap();
    let result = RunResult {
        steps: 400,
        prompts: 8,
        mean_loss: 1.0,
        bayes_loss: None,
        last_error_over_d: 0.5,
        errors: vec![1.0; 6],
        broke_down: None,
    };
    let log = "2026-11-15T15:20:01Z step 0: taken up on cpu\n2026-11-15T15:20:02Z failed: no room\n";
    let names = [runs::PLAN, "metrics.jsonl", runs::CHECKPOINT, "result.json", runs::LOG];
    let good = [
        TINY.as_bytes().to_vec(),
        rows(),
        std::fs::read(dir.join(runs::CHECKPOINT)).unwrap(),
        serde_json::to_vec(&result).unwrap(),
        log.as_bytes().to_vec(),
    ];
    for (name, bytes) in names.iter().zip(&good) {
        std::fs::write(dir.join(name), bytes).unwrap();
    }
    // The first byte says which file is wrong; without a result all the others count.
    let make = |random: &mut Random| {
        let which = random.below(names.len());
        let mut bytes = bent(random, &good[which..=which]);
        bytes.insert(0, which as u8);
        bytes
    };
    let read = |bytes: Vec<u8>| {
        let (which, result) = (usize::from(bytes[0]), dir.join("result.json"));
        std::fs::write(dir.join(names[which]), &bytes[1..]).unwrap();
        if which != 3 {
            let _ = std::fs::remove_file(&result);
        }
        let found = runs::state(&dir).map_err(said);
        let left = found.as_ref().ok().and_then(|state| state.progress.seconds_left);
        assert!(left.is_none_or(|seconds| seconds >= 0.0), "{left:?}");
        runs::unfinished(&dir).map(|unfinished| unfinished.to_string());
        let _ =
            (runs::list(root.path()), runs::recorded_device(&dir), runs::failure(&dir), runs::finished(&dir));
        std::fs::write(dir.join(names[which]), &good[which]).unwrap();
        found.map(drop)
    };
    let cost = Cost { plus: 48 << 20, ..COST };
    check(&Reader { cost, ..reader("run", runs::PLAN) }, make, read);
}

#[test]
fn what_slurm_says() {
    hostile::alone!();
    let texts = [
        &b"12_0|iclab|PENDING|Resources\n12_1|iclab|RUNNING|None\n15_1|iclab+4000|PENDING|BeginTime\n12_[2-9%3]|iclab|PENDING|\n"[..],
        b"12_0|iclab|TIMEOUT|0:0|00:30:10||2026-11-17T10:00:00\n12_[4-6,9%2]|iclab|CANCELLED by 7|0:0|00:00:00||Unknown\n\
          14_0|iclab|COMPLETED|0:0|1-00:00:01||2026-11-17T12:00:00\n14_0.batch|batch|FAILED|0:9|00:01:00|2M|Unknown\n",
        b"12 points 0-3: 'sbatch' '--array=0-3'\n",
        b"JobId=12_3 JobName=iclab Restarts=1 PreemptTime=None EndTime=Unknown\n",
    ];
    let texts = texts.map(<[u8]>::to_vec);
    check(
        &reader("slurm", ""),
        |random| bent(random, &texts),
        |bytes| {
            let text = String::from_utf8_lossy(&bytes);
            let names = slurm::JobNames::named("iclab");
            let queue = slurm::parse_queue(&text, &names);
            queue.values().for_each(|task| drop(task.words()));
            assert!(queue.values().all(|task| !task.id.contains('\n')));
            slurm::parse_accounts(&text, &names);
            slurm::parse_preempted(&text, "0");
            Ok(())
        },
    );
}

/// Findings with a panel of each shape.
fn findings() -> Findings {
    let series = Series::new("a", vec![(1.0, 2.0), (2.0, f64::NAN)]).band(vec![(1.0, 3.0), (1.0, 2.0)]);
    let map = HeatmapPanel::plain("", ("x", vec![0, 1]), ("y", vec![0, 1]), "SimE", vec![vec![0.5, 1.0]; 2]);
    let lines = LinesPanel::new(Axis::linear("x"), Axis::log10("y"), [series]);
    Findings {
        analysis: "F26".into(),
        title: "Is it?".into(),
        claims: vec![Claim::new("F26.x", Kind::Paper, "a statement", 0.5, Bound::AtMost(1.0))],
        figures: vec![Figure::new("f26-x", "Maps", "Two.", [Panel::from(map), lines.into()])],
        tables: vec![Table::new("t", "Table", "One.", ["a", "b"], [vec!["1".into(), "2".into()]])],
        ..Findings::default()
    }
}

#[test]
fn kept_findings() {
    hostile::alone!();
    let root = folder();
    let cache = Cache::under(root.path()).expect("a test can read itself");
    let analysis = lab::analyses::select(&["F26".into()]).unwrap()[0];
    let question = Digests::of(Models::under(root.path())).question(analysis, 0, 8);
    cache.put(&question, &findings());
    assert!(cache.get(&question).is_some());
    let build = std::fs::read_dir(root.path()).unwrap().next().unwrap().unwrap().path();
    let path = std::fs::read_dir(build).unwrap().next().unwrap().unwrap().path();
    let good = std::fs::read(&path).unwrap();
    let body = good.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let (head, body) = (String::from_utf8_lossy(&good[..body]).into_owned(), good[body..].to_vec());
    let make = |random: &mut Random| {
        if random.once_in(4) {
            return bent(random, std::slice::from_ref(&good));
        }
        // With the right checksum the findings themselves are read.
        let changed = bent(random, std::slice::from_ref(&body));
        let head = head.replace(&checksum(&body), &checksum(&changed));
        [head.as_bytes(), &changed].concat()
    };
    let read = |_: &Path| {
        let found = cache.get(&question).ok_or("measured again")?;
        assert_eq!(found.analysis, "F26");
        assert!(found.is_sound());
        Ok(())
    };
    check_file(&reader("cache", ""), &path, make, read);
}
