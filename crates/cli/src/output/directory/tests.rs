//! What is in a folder after commands, killed commands, and users.

use super::*;

/// Files of a folder with their texts; those that the folder keeps for itself left out.
fn seen(dir: &Path) -> Vec<(String, String)> {
    let files = owned::under(dir).unwrap().into_iter().filter(|name| name != LIST);
    files.map(|name| (name.clone(), fs::read_to_string(dir.join(name)).unwrap())).collect()
}

fn put(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn stage(directory: &Directory, files: &[&str], text: &str) {
    files.iter().for_each(|name| put(&directory.path(), name, text));
}

fn write(target: &Path, files: &[&str], text: &str) {
    let directory = Directory::begin(target).unwrap();
    stage(&directory, files, text);
    directory.finish().unwrap();
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect()
}

const FIRST: [&str; 4] = ["figures/a.svg", "figures/b.svg", "index.html", "plan.toml"];
const SECOND: [&str; 4] = ["figures/a.svg", "index.html", "plan.toml", "theory.html"];

#[test]
fn only_what_iclab_wrote_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("out");
    write(&target, &FIRST, "1");
    put(&target, "notes.txt", "mine");
    put(&target, "figures/mine.svg", "mine");
    put(&target, "deep/er/index.html", "mine");
    write(&target, &SECOND, "2");
    let mine = [("deep/er/index.html", "mine"), ("figures/a.svg", "2"), ("figures/mine.svg", "mine")];
    let rest = [("index.html", "2"), ("notes.txt", "mine"), ("plan.toml", "2"), ("theory.html", "2")];
    assert_eq!(seen(&target), pairs(&[&mine[..], &rest[..]].concat()));
    assert_eq!(owned::of(&target).unwrap().unwrap(), SECOND.map(String::from).into());
}

#[test]
fn a_folder_that_is_only_iclabs_loses_its_empty_parts() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &["index.html", "tables/t.csv"], "1");
    write(dir.path(), &["index.html"], "2");
    assert!(!dir.path().join("tables").exists());
}

#[test]
fn a_users_file_of_our_name_is_refused_or_kept() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path();
    write(target, &["result.json"], "1");
    put(target, "index.html", "mine");
    let refused = Directory::begin(target).err().unwrap().to_string();
    assert!(refused.contains("index.html") && refused.contains("not written by iclab"), "{refused}");
    assert_eq!(seen(target), pairs(&[("index.html", "mine"), ("result.json", "1")]));
    fs::remove_file(target.join("index.html")).unwrap();
    // Names that are known only when all is done do not cost the work: the user's file is renamed.
    put(target, "figures", "mine");
    put(target, "theory.html", "mine");
    write(target, &SECOND, "2");
    let expected =
        [("figures.kept1", "mine"), ("figures/a.svg", "2"), ("index.html", "2"), ("plan.toml", "2")];
    let rest = [("theory.html", "2"), ("theory.html.kept1", "mine")];
    assert_eq!(seen(target), pairs(&[&expected[..], &rest[..]].concat()));
}

#[test]
fn what_is_not_an_output_is_refused_and_left_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "run/plan.toml", "a run");
    put(dir.path(), "run/checkpoint.safetensors", "weights");
    put(dir.path(), "thesis/chapter.tex", "words");
    let before = seen(dir.path());
    for name in ["run", "thesis", "thesis/chapter.tex"] {
        let refused = Directory::begin(&dir.path().join(name)).err().unwrap().to_string();
        assert!(refused.contains("accepted: a new"), "{refused}");
    }
    assert_eq!(seen(dir.path()), before);
    drop(Directory::begin(&dir.path().join("new")).unwrap());
    assert!(!dir.path().join("new").exists(), "a command that fails leaves nothing");
}

#[test]
fn outputs_without_a_list_are_replaced_by_name() {
    let dir = tempfile::tempdir().unwrap();
    FIRST.iter().for_each(|name| put(dir.path(), name, "0"));
    put(dir.path(), "notes.txt", "mine");
    write(dir.path(), &SECOND, "1");
    let names: Vec<String> = seen(dir.path()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["figures/a.svg", "index.html", "notes.txt", "plan.toml", "theory.html"]);
}

/// As if the process had been killed: nothing is tidied up, and the lock is free.
fn kill(directory: Directory) {
    open().retain(|open| open.target != directory.target);
    drop(directory);
}

#[test]
fn a_kill_at_any_moment_loses_neither_the_old_nor_the_new() {
    // While files are written: the old output is there, and the next command is not disturbed.
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("out");
    write(&target, &FIRST, "1");
    let old = seen(&target);
    let directory = Directory::begin(&target).unwrap();
    stage(&directory, &SECOND, "half");
    kill(directory);
    assert!(target.join(NEW).exists());
    drop(Directory::begin(&target).unwrap());
    assert_eq!(seen(&target), old);

    // After everything is ready, with any number of files moved: the next command ends it, whatever it does itself.
    let mut order = SECOND.to_vec();
    order.sort_by_key(|name| (*name == "index.html", name.ends_with(".html")));
    for moved in 0..=SECOND.len() {
        let target = dir.path().join(format!("out{moved}"));
        write(&target, &FIRST, "1");
        put(&target, "notes.txt", "mine");
        let ready = target.join(READY);
        SECOND.iter().for_each(|name| put(&ready, name, "2"));
        put(&ready, LIST, &owned::text(&SECOND.map(String::from).into()));
        let all = FIRST.iter().chain(&SECOND).map(|name| name.to_string()).collect();
        put(&target, LIST, &owned::text(&all));
        order[..moved].iter().for_each(|name| fs::rename(ready.join(name), target.join(name)).unwrap());
        if moved < order.len() {
            assert_eq!(fs::read_to_string(target.join("index.html")).unwrap(), "1", "the page is the last");
        }
        drop(Directory::begin(&target).unwrap());
        let whole = ["figures/a.svg", "index.html", "notes.txt", "plan.toml", "theory.html"];
        let texts = ["2", "2", "mine", "2", "2"];
        assert_eq!(seen(&target), pairs(&whole.into_iter().zip(texts).collect::<Vec<_>>()), "{moved}");
        assert!(!ready.exists());
    }
}

#[test]
fn one_process_at_a_time_and_no_lock_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("out");
    let first = Directory::begin(&target).unwrap();
    let refused = Directory::begin(&target).err().unwrap().to_string();
    assert!(refused.contains(&format!("is being written by process {}", std::process::id())), "{refused}");
    assert!(first.path().is_dir(), "who is refused touches nothing");
    stage(&first, &FIRST, "1");
    first.finish().unwrap();
    assert!(!target.join(LOCK).exists() && !target.join(NEW).exists());
    put(&target, LOCK, "process 1 on elsewhere"); // of an earlier version: a file, and nobody holds it
    write(&target, &FIRST, "2");
    assert!(!target.join(LOCK).exists());
}

/// A lock's signature of a process that is not this one.
fn sign(target: &Path, boot: &str) {
    let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let text = format!(
        "process 77 on elsewhere\nboot {boot}\nspace {}\nstarted 1\nbeat {:020}\n",
        space.display(),
        5
    );
    put(target, LOCK, "");
    put(target, &format!("{LOCK}.3"), &text);
}

#[test]
fn who_writes_on_another_machine_is_named_and_whom_it_takes_over_from_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("out");
    sign(&target, "another");
    let refused = Directory::begin(&target).err().unwrap().to_string();
    let expected = "is being written by process 77 on elsewhere; accepted: another directory, or wait for it";
    assert!(refused.contains(expected), "{refused}");
    assert_eq!(seen(&target).len(), 2, "who is refused leaves what was there");
    fs::remove_dir_all(&target).unwrap();

    // Nothing was heard of this process for long, and another machine's has taken over and writes.
    let mut slept = Directory::begin(&target).unwrap();
    stage(&slept, &FIRST, "1");
    sign(&target, "another");
    let theirs = target.join(NEW).join("another");
    put(&theirs, "index.html", "2");
    let refused = slept.publish().err().unwrap().to_string();
    assert!(refused.contains("out: was taken over by another process"), "{refused}");
    drop(slept);
    assert!(theirs.join("index.html").exists() && target.join(format!("{LOCK}.3")).exists());
    assert!(!target.join("index.html").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_dead_process_of_this_machine_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("out");
    sign(&target, host::boot());
    put(&target, &format!("{LOCK}.1234-5.part"), "half");
    write(&target, &FIRST, "1");
    assert_eq!(seen(&target), pairs(&FIRST.map(|name| (name, "1"))), "nothing of the lock is left");
}

#[test]
fn a_folder_whose_first_list_was_half_written_is_still_ours_to_write() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("out");
    put(&target, &format!(".iclab-files.{}-7.part", engine::host::machine_tag()), "# What iclab");
    put(&target, ".iclab-new/index.html", "1");
    write(&target, &FIRST, "2");
    assert_eq!(seen(&target), pairs(&FIRST.map(|name| (name, "2"))));
}
